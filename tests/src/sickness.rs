//! Small file systems that a test has filled, frozen or covered, below a broker's directory.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate};

/// Largest part of the room that the ballast of a full disk takes immediately.
const BALLAST_BYTES: u64 = 128 << 20;

/// A small separate ext4, unmounted with the guard.
pub struct Disk(PathBuf);

impl Disk {
    /// Makes a file system of this size in a file, and mounts it at a directory. An error names a
    /// missing capability of this machine.
    pub fn mount(at: &Path, image: &Path, size_bytes: u64) -> Result<Self, String> {
        fs::create_dir_all(at)
            .and_then(|()| File::create(image)?.set_len(size_bytes))
            .map_err(|error| error.to_string())?;
        run("mkfs.ext4", &["-q", "-F", "-m", "0", &text(image)])?;
        run("mount", &["-o", "loop", &text(image), &text(at)])?;
        let disk = Self(at.to_owned());
        // A Kafka starts in no directory with folders of others.
        fs::remove_dir(at.join("lost+found")).map_err(|error| error.to_string())?;
        Ok(disk)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Fails unless the test has ended while the disk was frozen.
        let _ = run("fsfreeze", &["-u", &text(&self.0)]);
        // There may be a mount above it.
        while run("umount", &["-l", &text(&self.0)]).is_ok() {}
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let said = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stderr).into_owned()) }
}

/// A way in which a broker cannot write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sickness {
    /// The file system has no free block.
    Full,
    /// A read-only mount covers the directory. The kernel makes no file system read-only while
    /// files are open for writing: those that are open take records until the next segment.
    ReadOnly,
    /// The broker may open no more files.
    NoDescriptors,
    /// The file system blocks writes.
    Frozen,
}

impl Sickness {
    /// Begins at the disk and the broker of this process.
    pub fn begin(self, disk: &Path, pid: u32) {
        match self {
            Self::Full => {
                let mut ballast = File::create(disk.join("ballast")).expect("a file");
                let (mut size, mut end) = (BALLAST_BYTES, 0);
                while size >= 1 << 20 {
                    match fallocate(&ballast, FallocateFlags::empty(), end, size) {
                        Ok(()) => end += size,
                        Err(_) => size /= 2,
                    }
                }
                ballast.seek(SeekFrom::Start(end)).expect("a file");
                let block = vec![0; 64 << 10];
                while ballast.write_all(&block).is_ok() {}
                while ballast.write_all(&block[..512]).is_ok() {}
            }
            Self::ReadOnly => cover(disk).expect("a mount above the other"),
            Self::NoDescriptors => limit_descriptors(pid, "16"),
            Self::Frozen => run("fsfreeze", &["-f", &text(disk)]).expect("a file system that freezes"),
        }
    }

    /// Ends. The process may be another one than at the beginning.
    pub fn end(self, disk: &Path, pid: u32) {
        match self {
            Self::Full => fs::remove_file(disk.join("ballast")).expect("the ballast"),
            // The broker may have files open below it.
            Self::ReadOnly => run("umount", &["-l", &text(disk)]).expect("the mount above"),
            Self::NoDescriptors => limit_descriptors(pid, &most_descriptors(pid)),
            Self::Frozen => run("fsfreeze", &["-u", &text(disk)]).expect("a file system that thaws"),
        }
    }
}

/// Mounts the file system of a directory above it, read-only. The mount is made in another place:
/// the broker would open files for writing before it is read-only.
fn cover(disk: &Path) -> Result<(), String> {
    let (disk, place) = (text(disk), disk.with_extension("read-only"));
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let place = text(&place);
    run("mount", &["--bind", &disk, &place])?;
    run("mount", &["-o", "remount,bind,ro", &place])?;
    run("mount", &["--bind", &place, &disk])?;
    run("umount", &[&place])
}

/// Sets the soft limit of a process.
fn limit_descriptors(pid: u32, limit: &str) {
    run("prlimit", &["--pid", &pid.to_string(), &format!("--nofile={limit}:")]).expect("a process to limit");
}

/// The hard limit of a process.
fn most_descriptors(pid: u32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("a process");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    line.split_whitespace().nth(4).expect("a hard limit").to_owned()
}
