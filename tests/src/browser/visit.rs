//! A browser at a console, and the inspection of its pages in several looks.

use std::path::PathBuf;

use serde_json::json;

use super::{Browser, Look};
use crate::Node;

/// Window sizes for the inspection of each page. Wider windows show no further faults.
const LOOKS: [Look; 2] = [Look { width: 400, dark: false }, Look { width: 400, dark: true }];
/// Further looks, for pictures.
const PICTURES: [Look; 4] = [
    Look { width: 1280, dark: false },
    Look { width: 1280, dark: true },
    Look { width: 1920, dark: false },
    Look { width: 1920, dark: true },
];

/// A browser at the console of a node.
pub struct Visit {
    /// The browser, at a page of the console.
    pub browser: Browser,
    /// Address of the console, which begins with `http://`.
    pub base: String,
}

impl Visit {
    /// A new browser, which has not opened a page yet.
    pub fn new(node: &Node) -> Self {
        let mut browser = Browser::start("");
        browser.look(Look { width: 1280, dark: false });
        Self { browser, base: format!("http://{}", node.http_address()) }
    }

    /// Opens a page of the console.
    pub fn open(&mut self, path: &str) {
        assert_eq!(self.browser.open(&format!("{}{path}", self.base)), None, "{path}");
    }

    /// Logs a user in by the form.
    pub fn log_in(&mut self, user: &str, password: &str) {
        self.open("/topics");
        self.browser.fill("input[name=user]", user);
        self.browser.fill("input[name=password]", password);
        self.browser.follow("form.card button");
    }

    /// Opens each page in each look and fails if there is something to complain about.
    /// `LEVADA_TEST_PICTURES=DIR` keeps pictures whose names begin with `name`.
    pub fn inspect(&mut self, name: &str, paths: &[&str]) {
        let mut complaints = Vec::new();
        let pictures = if std::env::var_os("LEVADA_TEST_PICTURES").is_some() { &PICTURES[..] } else { &[] };
        for look in LOOKS.iter().chain(pictures).copied() {
            self.browser.look(look);
            for path in paths {
                self.open(path);
                let text = self.browser.text();
                assert!(!text.contains("Not done") && !text.contains("Not found"), "{path}: {text}");
                self.browser
                    .eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
                self.picture(name, path, look);
                let seen = (self.browser.inspect(), self.browser.complaints());
                if seen != (json!([]), Vec::new()) {
                    complaints.push(format!("{path} {look:?}: {seen:?}"));
                }
            }
        }
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    fn picture(&mut self, name: &str, path: &str, look: Look) {
        let Some(directory) = std::env::var_os("LEVADA_TEST_PICTURES") else { return };
        let colours = if look.dark { "dark" } else { "light" };
        let page: String =
            path.chars().take(60).map(|one| if one.is_ascii_alphanumeric() { one } else { '_' }).collect();
        let file = format!("{name}{page}-{}-{colours}.png", look.width);
        self.browser.picture(&PathBuf::from(directory).join(file));
    }
}
