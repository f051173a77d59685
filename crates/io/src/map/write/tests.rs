//! Tests of the mapping that is only written to.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;

use super::*;

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn writes_reach_the_file_from_any_position_on() {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(b"before", 0).unwrap();
    file.set_len(10_000).unwrap();
    let mut map = WriteMap::new(&file, 5_001..10_000).unwrap();
    map.populate()();
    map.write(5_001, b"one");
    map.write(9_997, b"two");
    let mut expected = vec![0; 10_000];
    expected[..6].copy_from_slice(b"before");
    expected[5_001..5_004].copy_from_slice(b"one");
    expected[9_997..].copy_from_slice(b"two");
    assert_eq!(content(&file), expected);
    assert!(!map.is_lost());
}

#[test]
fn mapped_write_to_truncated_file_loses_without_signal() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(64 << 10).unwrap();
    let mut map = WriteMap::new(&file, 0..64 << 10).unwrap();
    file.set_len(100).unwrap();
    map.populate()();
    assert!(!map.is_lost());
    map.write(40 << 10, &[7; 9_000]);
    assert!(map.is_lost());
    assert_eq!(content(&file), [0; 100]);
}

#[test]
fn socket_bytes_reach_mapped_file_without_buffer() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(10_000).unwrap();
    let mut map = WriteMap::new(&file, 5_001..10_000).unwrap();
    let (mut sender, receiver) = UnixStream::pair().unwrap();
    sender.write_all(b"some bytes").unwrap();
    assert_eq!(map.receive(5_001..5_005, &receiver).unwrap(), 4);
    assert_eq!(map.receive(5_005..10_000, &receiver).unwrap(), 6);
    drop(sender);
    assert_eq!(map.receive(5_011..10_000, &receiver).unwrap(), 0);
    assert_eq!(content(&file)[5_001..5_011], *b"some bytes");
    let outside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.receive(9_999..10_001, &receiver).is_ok()
    }));
    assert!(outside.is_err());
}

#[test]
fn receiving_into_truncated_file_is_an_error() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(64 << 10).unwrap();
    let mut map = WriteMap::new(&file, 0..64 << 10).unwrap();
    file.set_len(100).unwrap();
    let (mut sender, receiver) = UnixStream::pair().unwrap();
    sender.write_all(&[7; 100]).unwrap();
    let error = map.receive(40 << 10..41 << 10, &receiver).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::FAULT.raw_os_error()));
    assert_eq!(content(&file), [0; 100]);
}

#[test]
fn mapping_outside_the_file_is_refused() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(100).unwrap();
    assert_eq!(WriteMap::new(&file, 0..101).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(WriteMap::new(&file, 0..0).is_err());
    let mut map = WriteMap::new(&file, 10..20).unwrap();
    let outside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| map.write(9, &[1])));
    assert!(outside.is_err(), "a position before the range is a bug of the caller");
}

#[test]
fn a_dropped_map_is_unmapped() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 10).unwrap();
    let name = file.path().to_str().unwrap();
    let is_mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains(name);
    let map = WriteMap::new(file.as_file(), 0..64 << 10).unwrap();
    let populate = map.populate();
    drop(map);
    assert!(is_mapped(), "the task keeps it");
    populate();
    assert!(!is_mapped());
}
