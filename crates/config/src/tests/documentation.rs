//! The tables in `docs/operating/configuration.md` are made from the table of keys.

use std::fs;
use std::path::Path;

use super::*;

#[test]
fn the_documentation_lists_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/configuration.md");
    let page = fs::read_to_string(&path).unwrap();
    let expected =
        replace(&replace(&page, "<!-- broker keys", &broker_table()), "<!-- topic keys", &topic_table());
    if page != expected && std::env::var_os("LEVADA_BLESS").is_some() {
        fs::write(&path, expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "run LEVADA_BLESS=1 cargo test -p levada-config documentation, and commit the page"
    );
}

/// The page with `table` between the line that begins with `marker` and the next `<!-- end -->`.
fn replace(page: &str, marker: &str, table: &str) -> String {
    let start = page.find(marker).unwrap();
    let start = start + page[start..].find('\n').unwrap() + 1;
    let end = start + page[start..].find("<!-- end -->").unwrap();
    format!("{}{table}{}", &page[..start], &page[end..])
}

fn broker_table() -> String {
    let mut keys: Vec<&ConfigKey> = BROKER_KEYS.iter().collect();
    keys.sort_by_key(|key| key.name);
    let row = |key: &&ConfigKey| {
        let tick = if key.dynamic == Dynamic::ReadOnly { "" } else { "✓" };
        format!("| `{}` | {} | {} | {} | {tick} |\n", key.name, value(key.default), key.allowed(), key.doc)
    };
    let rows: String = keys.iter().map(row).collect();
    format!("\n| Key | Default | Allowed | Meaning | |\n|---|---|---|---|---|\n{rows}\n")
}

fn topic_table() -> String {
    let row = |topic: &TopicConfigKey| {
        let broker: Vec<String> = topic.broker.iter().map(|name| format!("`{name}`")).collect();
        let default = if broker.is_empty() { value(topic.key.default) } else { broker.join(", ") };
        format!("| `{}` | {default} | {} | {} |\n", topic.key.name, topic.key.allowed(), topic.key.doc)
    };
    let rows: String = TOPIC_KEYS.iter().map(row).collect();
    format!("\n| Key | Default | Allowed | Meaning |\n|---|---|---|---|\n{rows}\n")
}

fn value(default: Option<&str>) -> String {
    match default {
        None => "unset".to_owned(),
        Some("") => "empty".to_owned(),
        Some(text) => format!("`{text}`"),
    }
}
