//! Tests of directories.

use super::*;

fn read(directory: &Directory, key: &str, length: u64, range: Range<u64>) -> Result<Vec<u8>, RemoteError> {
    let mut bytes = Vec::new();
    directory.read(key, length, range, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

#[test]
fn object_parts_are_joined() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Directory::new(dir.path(), "objects");
    let path = dir.path().join("source");
    fs::write(&path, b"0123456789").unwrap();
    let file = File::open(&path).unwrap();
    let parts = [Part::Bytes(b"head "), Part::File(&file, 4), Part::Bytes(b""), Part::File(&file, 2)];
    directory.put("a/b/c", &parts).unwrap();
    assert_eq!(directory.read_whole("a/b/c", 11).unwrap(), b"head 012301");
    assert_eq!(read(&directory, "a/b/c", 11, 3..8).unwrap(), b"d 012");
    let mut joined = [0; 5];
    crate::objects::read_parts(&parts, 3, &mut joined).unwrap();
    assert_eq!(&joined, b"d 012");
    assert!(crate::objects::read_parts(&parts, 7, &mut joined).is_err(), "beyond the end");
}

#[test]
fn object_limits_apply_before_allocation() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Directory::new(dir.path(), "");
    let file = File::create(dir.path().join("huge")).unwrap();
    file.set_len(1 << 42).unwrap();
    assert_eq!(directory.read_whole("huge", 1 << 20).unwrap_err().kind, RemoteErrorKind::Damaged);
    assert_eq!(read(&directory, "huge", 10, 0..10).unwrap_err().kind, RemoteErrorKind::Damaged);
}

#[test]
fn a_failed_write_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Directory::new(dir.path(), "objects");
    let path = dir.path().join("source");
    fs::write(&path, b"short").unwrap();
    let file = File::open(&path).unwrap();
    let failed = directory.put("a/b", &[Part::File(&file, 100)]).unwrap_err();
    assert_eq!(failed.kind, RemoteErrorKind::Damaged, "{failed}");
    assert_eq!(fs::read_dir(dir.path().join(UPLOADS)).unwrap().count(), 0);
    let mut keys = Vec::new();
    directory.list("", &mut |entry| keys.push(entry.key)).unwrap();
    assert!(keys.is_empty());
    assert_eq!(directory.read_whole("a/b", 10).unwrap_err().kind, RemoteErrorKind::NotFound);
}

#[test]
fn a_failing_sink_is_a_local_error() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Directory::new(dir.path(), "");
    directory.put("a", &[Part::Bytes(b"records")]).unwrap();
    let full = |_: &[u8]| Err(io::Error::from(io::ErrorKind::StorageFull));
    let failed = directory.read("a", 7, 0..7, &mut { full }).unwrap_err();
    assert_eq!(failed.kind, RemoteErrorKind::Local, "{failed}");
}

#[test]
fn a_missing_directory_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Directory::new(&dir.path().join("mount"), "");
    let failures = [
        directory.put("a", &[Part::Bytes(b"records")]).unwrap_err(),
        directory.read_whole("a", 10).unwrap_err(),
        directory.delete(&["a".to_owned()]).unwrap_err(),
        directory.list("", &mut |_| {}).unwrap_err(),
    ];
    for failed in failures {
        assert_eq!(failed.kind, RemoteErrorKind::Unavailable, "{failed}");
    }
    assert!(!dir.path().join("mount").exists());
}

#[test]
fn brokers_never_share_unfinished_upload() {
    let dir = tempfile::tempdir().unwrap();
    let brokers = [0, 1].map(|_| Directory::new(dir.path(), ""));
    let uploads = brokers.each_ref().map(Directory::new_upload);
    assert_ne!(uploads[0], uploads[1]);
    create_dirs(&dir.path().join(UPLOADS)).unwrap();
    fs::write(&uploads[0], b"of another broker").unwrap();
    let refused = brokers[1].upload(&uploads[0], "a", &[Part::Bytes(b"mine")], Name::Replaced).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&uploads[0]).unwrap(), b"of another broker");
}
