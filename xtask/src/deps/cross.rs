//! The compiler for arm64 on x86-64: Debian's packages, unpacked and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Tool, cache, packages, remove, run, say, stamped};

const TOOLS: [Tool; 1] = [Tool { probe: &["dpkg-deb", "--version"], package: "dpkg" }];

/// Directory with `rustc`, `cc`, `ar` and `qemu` for arm64, which is filled if it is missing.
pub(crate) fn install_cross() -> Result<PathBuf, String> {
    packages(TOOLS.iter())?;
    let cache = cache()?;
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let target = cache.join("arm64");
    stamped(&[], &target, |_, target| unpack(target))?;
    Ok(target)
}

/// Unpacks the packages at their final path, which the programs contain.
fn unpack(target: &Path) -> Result<(), String> {
    say(&format!("a compiler for arm64 into {}", target.display()));
    remove(target)?;
    fs::create_dir(target).map_err(|error| format!("{}: {error}", target.display()))?;
    run(Command::new("sh").args(["-c", include_str!("cross.sh")]).current_dir(target))
}
