//! Tests of the owner of a store.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use levada_tiered::{StoreLayout, StoreLocation, StoreOptions};

use crate::directory::Directory;
use crate::error::RemoteError;
use crate::objects::{ObjectEntry, Objects, Part, Sink};
use crate::{RemoteErrorKind, Store};

/// A store that a cluster looked at before another cluster claimed it: the first read finds no
/// object.
struct Late {
    objects: Directory,
    is_read: AtomicBool,
    has_conditions: bool,
}

impl Late {
    fn store(dir: &Path, has_conditions: bool) -> Store {
        let objects = Directory::new(dir, "");
        let late = Self { objects, is_read: AtomicBool::new(false), has_conditions };
        Store::of(Box::new(late), StoreLayout::Aiven, String::new())
    }
}

impl Objects for Late {
    fn put(&self, key: &str, parts: &[Part<'_>]) -> Result<(), RemoteError> {
        self.objects.put(key, parts)
    }

    fn create(&self, key: &str, content: &[u8]) -> Result<bool, RemoteError> {
        if self.has_conditions {
            return self.objects.create(key, content);
        }
        Err(RemoteError::new(RemoteErrorKind::Unsupported, "cannot write", "501 Not Implemented"))
    }

    fn read(&self, key: &str, length: u64, range: Range<u64>, sink: Sink<'_>) -> Result<(), RemoteError> {
        self.objects.read(key, length, range, sink)
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<Vec<u8>, RemoteError> {
        if self.is_read.swap(true, Ordering::Relaxed) {
            return self.objects.read_whole(key, limit);
        }
        Err(RemoteError::new(RemoteErrorKind::NotFound, "cannot read", "missing"))
    }

    fn delete(&self, keys: &[String]) -> Result<(), RemoteError> {
        self.objects.delete(keys)
    }

    fn list(&self, prefix: &str, each: &mut dyn FnMut(ObjectEntry)) -> Result<(), RemoteError> {
        self.objects.list(prefix, each)
    }

    fn name(&self, key: &str) -> String {
        self.objects.name(key)
    }
}

#[test]
fn interleaved_claims_have_one_winner() {
    let dir = tempfile::tempdir().unwrap();
    let (first, late) = (Late::store(dir.path(), true), Late::store(dir.path(), true));
    first.claim("first").unwrap();
    assert_eq!(late.claim("second").unwrap_err().kind, RemoteErrorKind::Foreign);
    first.claim("first").unwrap();
    assert_eq!(fs::read_dir(dir.path().join(".levada-uploads")).unwrap().count(), 0);
}

#[test]
fn later_claim_decides_without_conditional_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (first, late) = (Late::store(dir.path(), false), Late::store(dir.path(), false));
    first.claim("first").unwrap();
    late.claim("second").unwrap();
    assert_eq!(first.claim("first").unwrap_err().kind, RemoteErrorKind::Foreign);
}

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
