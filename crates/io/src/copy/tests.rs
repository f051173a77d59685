//! Tests of copying from file to file, by every path.

use std::os::unix::fs::{FileExt, MetadataExt};

use super::*;
use crate::Caps;
use crate::tests::{content, file_of};

fn read_all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len().try_into().unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn only(path: Path) -> CopyOptions<'static> {
    CopyOptions { only: Some(path), counters: None }
}

/// The ways that this file system allows; copying through memory is one of them anywhere.
fn ways() -> impl Iterator<Item = Path> {
    let caps = Caps::probe();
    COPY_PATHS.into_iter().filter(move |path| path.works(&caps))
}

#[test]
fn every_path_copies_every_byte() {
    for len in [0, 1, 4095, 4096, 100_000, (3 << 20) + 17] {
        let content = content(len);
        let from = file_of(&content);
        for path in ways() {
            // Over something longer, which must not show through.
            let to = file_of(&vec![9; len + 5000]);
            let copied = copy(&from, &to, &only(path), |_, _| {}).unwrap();
            assert!(read_all(&to) == content, "{path} {len}");
            let expected = if len == 0 { vec![] } else { vec![(path, len as u64)] };
            assert_eq!((copied.by_path, copied.hole_bytes), (expected, 0), "{path} {len}");
        }
    }
}

#[test]
fn holes_stay_holes() {
    const MIB: u64 = 1 << 20;
    let from = tempfile::tempfile().unwrap();
    from.set_len(40 * MIB).unwrap();
    let content = content(MIB as usize);
    for at in [0, 8 * MIB, 20 * MIB + 4096] {
        from.write_all_at(&content, at).unwrap();
    }
    from.sync_all().unwrap();
    for path in ways().filter(|path| *path != Path::Reflink) {
        let to = tempfile::tempfile().unwrap();
        let copied = copy(&from, &to, &only(path), |_, _| {}).unwrap();
        assert!(read_all(&to) == read_all(&from), "{path}");
        assert_eq!(copied.data_bytes() + copied.hole_bytes, 40 * MIB, "{path}");
        if from.metadata().unwrap().blocks() * 512 < 10 * MIB {
            assert!(copied.hole_bytes >= 36 * MIB, "{path}: {copied:?}");
            assert!(to.metadata().unwrap().blocks() * 512 < 10 * MIB, "{path}");
        }
    }
    let nothing = tempfile::tempfile().unwrap();
    nothing.set_len(5 * MIB).unwrap();
    let to = tempfile::tempfile().unwrap();
    let copied = copy(&nothing, &to, &only(Path::ReadWrite), |_, _| {}).unwrap();
    assert_eq!((copied.data_bytes() + copied.hole_bytes, to.metadata().unwrap().len()), (5 * MIB, 5 * MIB));
}

#[test]
fn what_refuses_is_followed_by_the_next() {
    // Another file system, or none that could share blocks.
    let from = File::open("/proc/self/exe").unwrap();
    let memory =
        File::from(rustix::fs::memfd_create("levada-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    let counters = Counters::default();
    let options = CopyOptions { only: None, counters: Some(&counters) };
    let mut told = Vec::new();
    let copied = copy(&from, &memory, &options, |done, total| told.push((done, total))).unwrap();
    let expected = read_all(&from);
    assert!(read_all(&memory) == expected);
    assert_eq!(copied.data_bytes() + copied.hole_bytes, expected.len() as u64);
    assert_eq!(counters.snapshot().fallbacks(Fallback::ReflinkRefused), 1);
    assert!(told.is_sorted() && told.last() == Some(&(expected.len() as u64, expected.len() as u64)));

    let error = copy(&from, &memory, &only(Path::Reflink), |_, _| {}).unwrap_err();
    assert!(matches!(error, CopyError::Refused { path: Path::Reflink, .. }), "{error}");
}

#[test]
fn a_file_that_does_not_know_its_length_is_read_to_the_end() {
    let from = File::open("/proc/self/status").unwrap();
    assert_eq!(from.metadata().unwrap().len(), 0);
    let to = tempfile::tempfile().unwrap();
    let copied = copy(&from, &to, &CopyOptions::default(), |_, _| {}).unwrap();
    assert!(read_all(&to).starts_with(b"Name:"));
    assert_eq!(copied.by_path, [(Path::ReadWrite, to.metadata().unwrap().len())]);
}

#[test]
fn a_source_that_is_cut_meanwhile_is_an_error() {
    for path in ways().filter(|path| *path != Path::Reflink) {
        let from = file_of(&content(100_000));
        let to = tempfile::tempfile().unwrap();
        let mut work = Work {
            from: &from,
            to: &to,
            total: 200_000,
            counters: &Counters::default(),
            progress: |_, _| {},
            pipe: None,
            only: Some(path),
            holes: 0,
        };
        let error = work.segment(Span { offset: 0, len: 200_000 }, &mut vec![path]).unwrap_err();
        assert!(matches!(error, CopyError::Read { offset: 100_000, .. }), "{path}: {error}");
    }
}

#[test]
fn a_destination_that_cannot_be_written_is_an_error() {
    let from = file_of(b"bytes");
    let to = File::open("/dev/null").unwrap();
    assert!(copy(&from, &to, &CopyOptions::default(), |_, _| {}).is_err());
}
