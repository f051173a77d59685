//! Tests of an open file's state.

use super::*;
use crate::root::{DiskWait, Links, Root};

#[test]
fn file_counts_as_resident_under_a_second() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "text").unwrap();
    let opened = Root::open(home.path(), Links::Within).unwrap().file(b"file", DiskWait::Unlimited).unwrap();
    let terms = Terms { varies: false, cache: None, date: SystemTime::now() };
    let entry = Entry::new(opened, ("text/plain", None), terms);
    let begun = Instant::now();
    assert!(!entry.is_resident(begun), "nobody has asked the kernel");
    entry.found_resident(begun);
    assert!(entry.is_resident(begun + RESIDENT_AGE / 2));
    assert!(!entry.is_resident(begun + RESIDENT_AGE));
}
