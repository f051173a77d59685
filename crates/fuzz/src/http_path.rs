//! An arbitrary path in a real directory with links that lead out of it: opened files are in the
//! directory, with `openat2` and without it.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use levada_files::root::{DiskWait, Links, Root};
use levada_files::target::normalise;
use tempfile::TempDir;

use crate::scratch;

struct Place {
    _home: TempDir,
    roots: [Root; 2],
    /// Inodes of everything beneath the directory.
    inside: Vec<u64>,
}

thread_local! {
    static PLACE: Place = place();
}

fn place() -> Place {
    let home = scratch::dir();
    let root = home.path().join("a");
    fs::create_dir_all(root.join("a/b")).expect("directories");
    for file in ["a/b/a", "a/a", "b"] {
        fs::write(root.join(file), file).expect("a file");
    }
    fs::write(home.path().join("b"), "outside").expect("a file");
    for (target, link) in
        [("..", "c"), ("../..", "a/c"), ("../b", "a/d"), ("/", "d"), ("../../../b", "a/b/c"), ("d", "e")]
    {
        symlink(target, root.join(link)).expect("a link");
    }
    let of = |path: &str| fs::metadata(root.join(path)).expect("it is there").ino();
    let inside = ["", "a", "a/b", "a/b/a", "a/a", "b"].map(of).to_vec();
    let open = || Root::open(&root, Links::Within).expect("a root");
    let roots = [open(), open().without_openat2()];
    Place { roots, inside, _home: home }
}

/// Checks one input.
pub fn run(input: &[u8]) {
    PLACE.with(|place| check(place, input));
}

fn check(place: &Place, input: &[u8]) {
    let mut normal = Vec::new();
    let decoded = normalise(input, &mut normal).is_ok();
    if decoded {
        assert!(!normal.contains(&0) && normal.first() != Some(&b'/') && normal.last() != Some(&b'/'));
        assert!(!normal.split(|byte| *byte == b'/').any(|segment| segment == b".." || segment == b"."));
    }
    // Also paths that no request can contain.
    for path in [&*normal, input] {
        for root in &place.roots {
            if let Ok(opened) = root.file(path, DiskWait::Unlimited) {
                assert!(place.inside.contains(&opened.file_version.identity.1), "{path:?} lies outside");
            }
        }
    }
}
