//! Forms of targets, and paths that try to get somewhere else.

use proptest::prelude::*;

use super::{Shape, Target, host, normalise, split};

fn normal(path: &str) -> Result<(String, Shape), &'static str> {
    let mut out = Vec::new();
    let shape = normalise(path.as_bytes(), &mut out).map_err(|refusal| refusal.reason)?;
    Ok((String::from_utf8_lossy(&out).into_owned(), shape))
}

#[test]
fn request_target_splits_into_path_and_query() {
    let path =
        |path: &'static str, query: Option<&'static str>, authority: Option<&'static str>| Target::Path {
            path: path.as_bytes(),
            query: query.map(str::as_bytes),
            authority: authority.map(str::as_bytes),
        };
    assert_eq!(split(b"/a?b?c"), Ok(path("/a", Some("b?c"), None)));
    assert_eq!(split(b"HTTP://host:80/a"), Ok(path("/a", None, Some("host:80"))));
    assert_eq!(split(b"https://host?q"), Ok(path("/", Some("q"), Some("host"))));
    assert_eq!(split(b"*"), Ok(Target::Server));
    for odd in ["a", "/a#b", "ftp://host/", "http:///a", "host:443", ""] {
        assert!(split(odd.as_bytes()).is_err(), "{odd}");
    }
}

#[test]
fn paths_are_normalized() {
    for (path, form, directory) in [
        ("/", "", true),
        ("//a///b", "a/b", false),
        ("/a/./b/.", "a/b", true),
        ("/%61%2e%62", "a.b", false),
        ("/a%2520b", "a%20b", false),
        ("/a/", "a", true),
        ("/%C3%BC", "ü", false),
        ("/a\\..\\b", "a\\..\\b", false),
    ] {
        let (normal, shape) = normal(path).unwrap();
        assert_eq!((&*normal, shape.directory), (form, directory), "{path}");
    }
}

#[test]
fn path_outside_the_root_is_refused() {
    for path in ["/..", "/a/../b", "/%2e%2e/a", "/a/%2E.", "/a%2fb", "/a%00", "/%", "/%4", "/%zz", "/%+1"] {
        assert!(normal(path).is_err(), "{path}");
    }
    // A name that would decode to something else a second time is the name of a file.
    assert_eq!(normal("/%252e%252e/a").unwrap().0, "%2e%2e/a");
}

#[test]
fn dot_files_are_hidden() {
    let hidden = |path: &str| normal(path).unwrap().1.hidden;
    assert!(
        hidden("/.git/config")
            && hidden("/a/.b")
            && hidden("/%2egit")
            && hidden("/...")
            && hidden("/a/.well-known")
    );
    assert!(!hidden("/a.b/c.") && !hidden("/.well-known/acme-challenge/x"));
    assert!(hidden("/.well-known/.x"));
}

#[test]
fn a_host_is_a_name_in_lower_case() {
    assert_eq!(host(b"Example.ORG:8080"), Ok(Some("example.org".to_owned())));
    assert_eq!(host(b"example.org."), Ok(Some("example.org".to_owned())));
    for none in ["", "[::1]:80", "[::1]", ".git", "..", "...:1"] {
        assert_eq!(host(none.as_bytes()), Ok(None), "{none}");
    }
    for odd in ["a/b", "a b", "[::1", "[x]", "a:b", "a:1:2", "a%2fb", ":80", "a\0"] {
        assert!(host(odd.as_bytes()).is_err(), "{odd}");
    }
}

proptest! {
    /// The result for any input is relative, goes down only, and is its own normal form.
    #[test]
    fn normalized_path_stays_below_the_root(path in "/[a%./0-9efEF\\x00-\\x7f]{0,40}") {
        let mut out = Vec::new();
        if normalise(path.as_bytes(), &mut out).is_ok() {
            prop_assert!(!out.contains(&0));
            if !out.is_empty() {
                for segment in out.split(|byte| *byte == b'/') {
                    prop_assert!(!segment.is_empty() && segment != b"." && segment != b"..");
                }
            }
        }
    }
}
