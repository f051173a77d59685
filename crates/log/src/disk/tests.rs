//! Files that no broker made: what is in their place must not stop a start.

use std::fs::{self, File};
use std::io;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{Disk, RealDisk, lock, lock_to_read};

#[test]
fn a_file_of_absurd_length_is_refused_and_not_read() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recovery-point-offset-checkpoint");
    File::create(&path).unwrap().set_len(30 << 30).unwrap();
    let error = RealDisk.read_file(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    fs::write(&path, "0").unwrap();
    assert_eq!(RealDisk.read_file(&path).unwrap(), b"0");
}

#[test]
fn a_named_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("leader-epoch-checkpoint");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_eq!(RealDisk.read_file(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert!(RealDisk.open(&path).is_err() && RealDisk.open_to_read(&path).is_err());
    assert!(
        RealDisk.write_file(&path, b"0").is_err() && lock(&path).is_err() && lock_to_read(&path).is_err()
    );
    assert_eq!(RealDisk.open_to_read(dir.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
}
