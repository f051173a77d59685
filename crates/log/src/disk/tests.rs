//! Files that no broker made: what is in their place must not stop a start.

use std::fs::{self, File};
use std::io;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, fcntl_lock, mknodat};
use tempfile::TempDir;

use super::{Disk, ReadFiles, ReadLock, RealDisk, exposed, lock, lock_to_read};

#[test]
fn oversized_file_is_refused_unread() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recovery-point-offset-checkpoint");
    File::create(&path).unwrap().set_len(30 << 30).unwrap();
    let error = RealDisk.read_file(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    fs::write(&path, "0").unwrap();
    assert_eq!(RealDisk.read_file(&path).unwrap(), b"0");
}

#[test]
fn named_pipe_instead_of_file_is_refused() {
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

#[test]
fn files_exclude_others_and_credentials_exclude_group() {
    use std::os::unix::fs::PermissionsExt;
    let home = TempDir::new().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let partition = home.path().join("data/clicks-0");
    RealDisk.create_dir(&partition).unwrap();
    assert_eq!((mode(&partition) & 0o027, mode(&home.path().join("data")) & 0o027), (0, 0));
    let records = partition.join("00000000000000000000.log");
    RealDisk.create(&records).unwrap();
    RealDisk.write_file(&partition.join("partition.metadata"), b"0").unwrap();
    drop(lock(&partition.join(".lock")).unwrap());
    for name in ["00000000000000000000.log", "partition.metadata", ".lock"] {
        assert_eq!(mode(&partition.join(name)) & 0o137, 0, "{name}");
    }
    let metadata = home.path().join("data/__cluster_metadata-0");
    RealDisk.create_dir(&metadata).unwrap();
    let log = metadata.join("00000000000000000000.log");
    RealDisk.create(&log).unwrap();
    let snapshot = metadata.join("00000000000000000100-0000000001.checkpoint.part");
    RealDisk.write_file(&snapshot, b"0").unwrap();
    let bootstrap = home.path().join("data/bootstrap.checkpoint");
    RealDisk.write_file(&bootstrap, b"0").unwrap();
    for path in [log, snapshot, bootstrap] {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn world_readable_credentials_are_found() {
    use std::os::unix::fs::PermissionsExt;
    let home = TempDir::new().unwrap();
    let chmod = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let metadata = home.path().join("__cluster_metadata-0");
    RealDisk.create_dir(&metadata).unwrap();
    let log = metadata.join("00000000000000000000.log");
    RealDisk.create(&log).unwrap();
    chmod(home.path(), 0o755);
    chmod(&metadata, 0o755);
    assert_eq!(exposed(home.path()).unwrap(), None);
    chmod(&log, 0o644);
    assert_eq!(exposed(home.path()).unwrap(), Some(log));
    chmod(&metadata, 0o750);
    assert_eq!(exposed(home.path()).unwrap(), None, "the directory is closed");
    let bootstrap = home.path().join("bootstrap.checkpoint");
    fs::write(&bootstrap, b"0").unwrap();
    chmod(&bootstrap, 0o644);
    assert_eq!(exposed(home.path()).unwrap(), Some(bootstrap));
    chmod(home.path(), 0o750);
    assert_eq!(exposed(home.path()).unwrap(), None);
}

/// Kafka takes a lock of this kind. It is the process's, which loses it when it closes any file
/// that is open on the same path.
#[test]
fn directory_locked_by_java_process_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".lock");
    let of_java = File::options().create(true).truncate(false).write(true).open(&path).unwrap();
    let lock_of_java = || fcntl_lock(&of_java, FlockOperation::NonBlockingLockExclusive);
    lock_of_java().unwrap();
    assert!(lock(&path).unwrap().is_none());
    lock_of_java().unwrap();
    assert!(matches!(lock_to_read(&path).unwrap(), ReadLock::Taken));

    let held = lock(&path).unwrap().unwrap();
    assert!(lock_of_java().is_err());
    assert!(matches!(lock_to_read(&path).unwrap(), ReadLock::Taken));
    drop(held);
    let ReadLock::Held(held) = lock_to_read(&path).unwrap() else { panic!("the directory is free") };
    assert!(lock_of_java().is_err());
    drop(held);
    lock_of_java().unwrap();
}

#[test]
fn linked_directory_removal_keeps_nested_directories() {
    let home = TempDir::new().unwrap();
    let (data, other) = (home.path().join("data"), home.path().join("other"));
    let link = data.join("t-0");
    let linked = || {
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("00000000000000000000.log"), "records").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
    };
    linked();
    RealDisk.remove_dir(&link).unwrap();
    assert!(!other.exists() && fs::symlink_metadata(&link).is_err());
    linked();
    fs::create_dir(other.join("photos")).unwrap();
    RealDisk.remove_dir(&link).unwrap();
    let left: Vec<_> = fs::read_dir(&other).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left == ["photos"] && fs::symlink_metadata(&link).is_err(), "{left:?}");
    std::os::unix::fs::symlink(home.path().join("gone"), &link).unwrap();
    RealDisk.remove_dir(&link).unwrap();
    assert!(fs::symlink_metadata(&link).is_err());
}
