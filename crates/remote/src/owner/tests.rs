//! Tests of the owner of a store.

use std::fs;
use std::path::Path;
use std::time::Duration;

use levada_tiered::{StoreLayout, StoreLocation, StoreOptions};

use crate::{RemoteErrorKind, Store};

fn open(dir: &Path, layout: StoreLayout) -> Store {
    let location = StoreLocation::Directory(dir.to_owned());
    let request_timeout = Duration::from_secs(1);
    let options =
        StoreOptions { location, layout, endpoint: None, region: None, kms_key: None, request_timeout };
    Store::open(&options).unwrap()
}

#[test]
fn first_cluster_owns_the_store() {
    let dir = tempfile::tempdir().unwrap();
    for layout in [StoreLayout::Aiven, StoreLayout::Local] {
        let store = open(dir.path(), layout);
        assert_eq!(store.cluster().unwrap().is_none(), layout == StoreLayout::Aiven, "{layout:?}");
        store.claim("first").unwrap();
        store.claim("first").unwrap();
        let refused = store.claim("second").unwrap_err();
        assert_eq!(refused.kind, RemoteErrorKind::Foreign);
        let text = refused.to_string();
        assert!(
            ["cluster first", "cluster second", ".levada/cluster.json"]
                .iter()
                .all(|part| text.contains(part))
        );
        store.list(&mut |entry| panic!("{entry:?} is no object of a segment")).unwrap();
    }
    let expected = include_str!("../../testdata/cluster.json");
    assert_eq!(fs::read_to_string(dir.path().join(".levada/cluster.json")).unwrap(), expected.trim_end());
    assert!(!dir.path().join("kafka-tiered-storage").exists());
}

#[test]
fn malformed_owner_object_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), StoreLayout::Aiven);
    fs::create_dir(dir.path().join(".levada")).unwrap();
    for content in ["", r#"{"version":2,"cluster.id":"first"}"#, r#"{"version":1}"#, &" ".repeat(5000)] {
        fs::write(dir.path().join(".levada/cluster.json"), content).unwrap();
        assert_eq!(store.claim("first").unwrap_err().kind, RemoteErrorKind::Damaged, "{content}");
    }
}

#[test]
fn unmounted_store_gets_no_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mount");
    let store = open(&path, StoreLayout::Local);
    assert_eq!(store.claim("first").unwrap_err().kind, RemoteErrorKind::Unavailable);
    assert!(!path.exists());
}
