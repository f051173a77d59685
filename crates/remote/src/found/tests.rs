//! Tests of segments that are found by the names of objects.

use std::fs;
use std::path::Path;
use std::time::Duration;

use levada_tiered::{StoreLayout, StoreLocation, StoreOptions};

use crate::{RemoteErrorKind, Store};

const ID: &str = "MWJ6FHTfRYy67jzwZdeqSQ";
const SEGMENTS: [&str; 2] = ["tqimKeZwStOEOwRzT3L5oQ", "sqimKeZwStOEOwRzT3L5oQ"];

fn open(dir: &Path, layout: StoreLayout) -> Store {
    let location = StoreLocation::Directory(dir.to_owned());
    let request_timeout = Duration::from_secs(1);
    let options =
        StoreOptions { location, layout, endpoint: None, region: None, kms_key: None, request_timeout };
    Store::open(&options).unwrap()
}

#[test]
fn segments_need_their_last_object() {
    for (layout, folder, last) in [
        (StoreLayout::Aiven, format!("t-{ID}/0"), "rsm-manifest"),
        (StoreLayout::Local, format!("kafka-tiered-storage/t-0-{ID}"), "log"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let file = |offset: i64, segment: &str, suffix: &str| {
            fs::write(folder.join(format!("{offset:020}-{segment}.{suffix}")), b"four").unwrap();
        };
        file(7, SEGMENTS[0], "log");
        file(7, SEGMENTS[0], last);
        file(3, SEGMENTS[1], "indexes");
        fs::write(folder.join("notes.txt"), b"").unwrap();
        let found = open(dir.path(), layout).found_segments().unwrap();
        assert_eq!((found.segments.len(), found.unfinished.len(), found.foreign), (1, 1, 1), "{layout:?}");
        let segment = &found.segments[0];
        assert_eq!((segment.start_offset, segment.log_bytes), (7, 4));
    }
}

#[test]
fn damaged_manifests_describe_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(format!("t-{ID}/0"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{:020}-{}.rsm-manifest", 0, SEGMENTS[0])), b"{\"version\":\"1\"}")
        .unwrap();
    let store = open(dir.path(), StoreLayout::Aiven);
    let found = store.found_segments().unwrap();
    assert_eq!(store.undescribed(&found.segments[0]).unwrap_err().kind, RemoteErrorKind::Damaged);
}
