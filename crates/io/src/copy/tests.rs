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
fn copies_keep_file_holes() {
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
fn refused_copy_path_falls_back_to_next() {
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
fn copy_reads_file_of_unknown_length_to_end() {
    let from = File::open("/proc/self/status").unwrap();
    assert_eq!(from.metadata().unwrap().len(), 0);
    let to = tempfile::tempfile().unwrap();
    let copied = copy(&from, &to, &CopyOptions::default(), |_, _| {}).unwrap();
    assert!(read_all(&to).starts_with(b"Name:"));
    assert_eq!(copied.by_path, [(Path::ReadWrite, to.metadata().unwrap().len())]);
}

#[test]
fn copy_of_truncated_source_is_an_error() {
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
        let error = work.segment(StepRange { offset: 0, len: 200_000 }, &mut vec![path]).unwrap_err();
        assert!(matches!(error, CopyError::Read { offset: 100_000, .. }), "{path}: {error}");
    }
}

#[test]
fn copy_to_unwritable_destination_is_an_error() {
    let from = file_of(b"bytes");
    let to = File::open("/dev/null").unwrap();
    assert!(copy(&from, &to, &CopyOptions::default(), |_, _| {}).is_err());
}

/// On an image of our own, in a mount namespace that takes it along when it ends.
#[test]
fn copy_shares_blocks_where_supported() {
    const NAME: &str = "copy::tests::copy_shares_blocks_where_supported";
    const LEN: usize = (20 << 20) + 17;
    if crate::tests::role().is_none() {
        let dir = tempfile::tempdir().unwrap();
        let script = "cd \"$0\" && mkdir there && truncate -s 400M image && { mkfs.btrfs -q image || mkfs.xfs -q image; } && \
                      mount -o loop image there && TMPDIR=\"$0/there\" exec \"$@\"";
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(dir.path()).arg(std::env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]).env("LEVADA_IO_TEST_ROLE", "inside");
        let said = match command.output() {
            Err(error) => return crate::tests::links::skipped(NAME, &error.to_string()),
            Ok(output) => [output.stdout, output.stderr].concat(),
        };
        let said = String::from_utf8_lossy(&said);
        if said.contains("running 1 test") {
            assert!(said.contains("1 passed"), "{said}");
        } else {
            crate::tests::links::skipped(NAME, said.lines().last().unwrap_or("no mount is allowed"));
        }
        return;
    }
    let free = || {
        let system = rustix::fs::statvfs(std::env::temp_dir()).unwrap();
        system.f_bfree * system.f_frsize
    };
    let content = content(LEN);
    let (from, to) = (file_of(&content), tempfile::tempfile().unwrap());
    from.sync_all().unwrap();
    let before = free();
    let copied = copy(&from, &to, &CopyOptions::default(), |_, _| {}).unwrap();
    to.sync_all().unwrap();
    assert_eq!((copied.by_path, copied.hole_bytes), (vec![(Path::Reflink, LEN as u64)], 0));
    assert!(read_all(&to) == content);
    assert!(before.saturating_sub(free()) < LEN as u64 / 2, "{before} bytes were free, {} are", free());
    // Shared does not mean the same: what is written to one is not in the other.
    to.write_all_at(b"other", 4096).unwrap();
    assert!(read_all(&from) == content && read_all(&to)[4096..].starts_with(b"other"));
}
