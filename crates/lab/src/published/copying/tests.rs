//! The committed page is made from its committed record.

use std::fs;
use std::path::Path;

use super::*;
use crate::record;

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab")
}

#[test]
fn page_about_copying_matches_its_record() {
    let committed = fs::read_to_string(docs().join("copying-splice.md")).unwrap();
    let lines = record::read(&docs().join("runs/transfer.jsonl")).unwrap();
    assert_eq!(
        page(&[(EXPERIMENT.to_owned(), lines)].into()),
        committed,
        "docs/lab/record.sh writes the page again"
    );
    assert_eq!(groups_of(&committed), 6, "{committed}");
    let compared = committed.matches("The second lane against the splice that copies").count();
    assert_eq!(compared, 4, "{committed}");
}

fn groups_of(page: &str) -> usize {
    page.matches("\n### ").count()
}

#[test]
fn page_without_record_has_no_tables() {
    assert_eq!(groups_of(&page(&BTreeMap::new())), 0);
}
