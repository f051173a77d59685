//! An arbitrary path in a real directory with links that lead out of it: opened files are in the
//! directory, with `openat2` and without it.

#![no_main]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::LazyLock;

use levada_files::root::{DiskWait, Links, Root};
use levada_files::target::normalise;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

struct Place {
    _home: TempDir,
    roots: [Root; 2],
    /// Inodes of everything beneath the directory.
    inside: Vec<u64>,
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let home = TempDir::new().expect("a directory");
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
});

fuzz_target!(|input: &[u8]| {
    let place = &*PLACE;
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
});
