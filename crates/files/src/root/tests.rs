//! Paths and links against a real directory, by `openat2` and without it.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::{DiskWait, Fault, FileVersion, Links, Root};

struct Place {
    home: TempDir,
}

impl Place {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let root = home.path().join("root");
        fs::create_dir_all(root.join("dir/deep")).unwrap();
        fs::write(root.join("file"), "inside").unwrap();
        fs::write(root.join("dir/deep/file"), "deep").unwrap();
        fs::write(home.path().join("secret"), "outside").unwrap();
        symlink("file", root.join("link")).unwrap();
        symlink("../file", root.join("dir/up")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink(home.path().join("secret"), root.join("absolute")).unwrap();
        symlink("/proc/self/cwd", root.join("magic")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("..", root.join("dir/out")).unwrap();
        symlink("../..", root.join("dir/further")).unwrap();
        Self { home }
    }

    fn root(&self, links: Links) -> Root {
        Root::open(&self.home.path().join("root"), links).unwrap()
    }
}

fn content(root: &Root, path: &str) -> Option<String> {
    match root.file(path.as_bytes(), DiskWait::Unlimited) {
        Ok(opened) if opened.is_directory => Some("directory".to_owned()),
        Ok(opened) => Some(std::io::read_to_string(opened.file).unwrap()),
        Err(Fault::Missing) => None,
        Err(other) => panic!("{path}: {other}"),
    }
}

#[test]
fn symbolic_links_stay_within_the_root() {
    let place = Place::new();
    let root = place.root(Links::Within);
    for (path, expected) in [
        ("", Some("directory")),
        ("file", Some("inside")),
        ("dir/deep/file", Some("deep")),
        ("link", Some("inside")),
        ("dir/up", Some("inside")),
        ("dir/out/file", Some("inside")),
        ("out", None),
        ("absolute", None),
        ("magic/file", None),
        ("loop", None),
        ("dir/further/secret", None),
        ("../secret", None),
        ("dir/../../secret", None),
        ("/etc/passwd", None),
        ("file/", None),
        ("file/x", None),
        ("nothing", None),
    ] {
        assert_eq!(content(&root, path).as_deref(), expected, "{path}");
    }
    let long = "x".repeat(5000);
    assert_eq!(content(&root, &long), None);
}

#[test]
fn without_openat2_no_link_is_followed_at_all() {
    let place = Place::new();
    let root = place.root(Links::Within).without_openat2();
    for (path, expected) in [
        ("", Some("directory")),
        ("file", Some("inside")),
        ("dir/deep/file", Some("deep")),
        ("link", None),
        ("dir/out/file", None),
        ("out", None),
        ("absolute", None),
        ("dir/further/secret", None),
        ("../secret", None),
        ("dir/../../secret", None),
    ] {
        assert_eq!(content(&root, path).as_deref(), expected, "{path}");
    }
}

#[test]
fn option_follows_links_outside_the_root() {
    let place = Place::new();
    for root in [place.root(Links::Anywhere), place.root(Links::Anywhere).without_openat2()] {
        assert_eq!(content(&root, "out").as_deref(), Some("outside"));
        assert_eq!(content(&root, "absolute").as_deref(), Some("outside"));
        assert_eq!(content(&root, "../secret"), None, "the path itself leads nowhere else");
    }
}

#[test]
fn pipe_is_not_served_and_does_not_block() {
    let place = Place::new();
    let path = place.home.path().join("root/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    assert_eq!(content(&place.root(Links::Within), "pipe"), None);
}

#[test]
fn each_host_can_have_its_own_root() {
    let place = Place::new();
    let root = place.root(Links::Within).below(b"dir", DiskWait::Unlimited).unwrap();
    assert_eq!(content(&root, "deep/file").as_deref(), Some("deep"));
    // Within the outer directory, but not within this one.
    assert_eq!(content(&root, "up"), None);
}

#[test]
fn any_write_changes_the_file_version() {
    let place = Place::new();
    let path = place.home.path().join("root/file");
    let opened = place.root(Links::Within).file(b"file", DiskWait::Unlimited).unwrap();
    let old = filetime(&path, 1);
    let before = FileVersion::now(&opened.file).unwrap();
    fs::write(&path, "INSIDE").unwrap();
    assert!(!FileVersion::now(&opened.file).unwrap().same_bytes(&before));
    drop(old);
    let before = FileVersion::now(&opened.file).unwrap();
    fs::rename(place.home.path().join("secret"), &path).unwrap();
    let after = FileVersion::now(&opened.file).unwrap();
    assert!(after.same_bytes(&before), "its bytes are still those");
    assert_ne!(after, before, "but it has lost its name");
}

/// Sets a time of modification that no write of this test can have.
fn filetime(path: &std::path::Path, seconds: u64) -> fs::File {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    file
}
