//! Tests of the probe.

use super::*;
use crate::path::Path;

#[test]
fn every_capability_is_listed_once() {
    let caps = Caps::probe();
    let names: std::collections::BTreeSet<&str> = caps.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 14);
    assert_eq!(caps.iter().count(), 14);
}

#[test]
fn absence_has_a_reason_and_a_remedy() {
    let absent = Support::of(Err("no such call".to_owned()), "update the kernel");
    assert_eq!(absent, Support::Absent { why: "no such call".to_owned(), remedy: "update the kernel" });
    assert!(!absent.works());
    for (name, support) in Caps::probe().iter() {
        if let Support::Absent { why, remedy } = support {
            assert!(!why.is_empty() && !remedy.is_empty(), "{name}");
        }
    }
}

/// A file on tmpfs with the sample, and a second descriptor of it whose reads avoid the page cache:
/// there, a splice copies. None if this machine has no such files.
fn uncached_file() -> Option<(File, File)> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open("/dev/shm", flags, Permissions::RUSR | Permissions::WUSR).ok()?);
    std::os::unix::fs::FileExt::write_all_at(&file, &SAMPLE, 0).ok()?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let direct = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    Some((file, File::from(rustix::fs::open(path, direct, Permissions::empty()).ok()?)))
}

#[test]
fn copies_in_a_pipe_are_recognised() {
    let Some((file, uncached)) = uncached_file() else {
        crate::tests::links::skipped("copies in a pipe", "/dev/shm has no files for O_DIRECT");
        return;
    };
    let copies = references_pages(&uncached, &file).unwrap_err();
    assert!(copies.to_string().contains("puts copies of the pages"), "{copies}");
    let references = references_pages(&file, &file).is_ok();
    assert!(references || !Caps::probe().page_references.works(), "no reference is claimed");
    let mut first = [0];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut first, 0).unwrap();
    assert_eq!(first, SAMPLE[..1], "the probe restores the page");
}

#[test]
fn copying_kernels_use_separate_paths() {
    let works = |references: bool| {
        let mut caps = Caps::probe();
        (caps.splice, caps.sendfile) = (Support::Works, Support::Works);
        let copies = || Support::of(Err("copies".to_owned()), COPIES_REMEDY);
        caps.page_references = if references { Support::Works } else { copies() };
        [Path::Splice, Path::Sendfile, Path::SpliceCopy, Path::SendfileCopy].map(|path| path.works(&caps))
    };
    assert_eq!(works(true), [true, true, false, false]);
    assert_eq!(works(false), [false, false, true, true]);
}

#[test]
fn probe_in_unwritable_directory_falls_back_to_memory() {
    let caps = Caps::probe_in(std::path::Path::new("/proc/self"));
    assert!(caps.sendfile.works() || !Caps::probe().sendfile.works());
}

#[test]
fn a_read_without_waiting_must_return_the_bytes() {
    use std::os::unix::fs::FileExt;

    let bench = Bench::new(&std::env::temp_dir()).unwrap();
    if let Err(error) = bench.nowait_read() {
        crate::tests::links::skipped("a read without waiting", &error.to_string());
        return;
    }
    bench.file.write_all_at(&[!SAMPLE[0]], 0).unwrap();
    assert_eq!(bench.nowait_read().unwrap_err().to_string(), "read other bytes");
    bench.file.set_len(0).unwrap();
    assert!(bench.nowait_read().is_err(), "no bytes");
}

#[test]
fn probe_fails_on_altered_bytes() {
    let mut arrived = SAMPLE;
    arrived[7] ^= 1;
    assert!(received(&arrived[..], 8).is_err());
    assert!(received(&SAMPLE[..], 0).is_err());
    assert!(received(&SAMPLE[..], 8).is_ok());
}
