//! The binary of the packages: static, stripped, no larger than its ceiling, and the same for the
//! same sources in any directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::contents;
use super::release::Release;
use crate::suite::cargo;

/// Ceilings of the stripped binary by profile, and of the other programs of `dist`, in bytes: 4 to
/// 5 per cent above the sizes of 2026-11-30. Programs of `dist` are static. The tests of each
/// change build `release`, which is not static, and without incremental compilation where a build
/// is not repeated: that adds 2.9 MB (docs/decisions/2026-11-24-binary-size.md).
const CEILINGS: [(&str, usize); 4] =
    [("dist", 33_200_000), ("release", 61_000_000), (LABORATORY, 9_000_000), (ENTRY, 2_000_000)];
/// The laboratory's program, in the table of ceilings.
const LABORATORY: &str = "laboratory";
/// The entry of the image, in the table of ceilings.
const ENTRY: &str = "entry";

/// Builds the binary and its accompanying programs in a target directory, and returns the path of
/// the binary.
pub(crate) fn build(root: &Path, release: &Release, profile: &str, target: &Path) -> Result<PathBuf, String> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let crates = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home).ok_or("HOME is not set")?;
    // The last prefix that matches is replaced: the target directory is often inside the sources.
    let places = [(root, "/levada"), (crates.as_path(), "/cargo"), (target, "/target")];
    let joined = |from: &Path, to: &str| {
        let mut pair = from.as_os_str().to_owned();
        pair.push("=");
        pair.push(to);
        pair
    };
    // Relative relocations packed: a table of 1.2 MB becomes one of 10 kB.
    let flags = ["-Ctarget-feature=+crt-static", "-Cstrip=symbols", "-Clink-arg=-Wl,-z,pack-relative-relocs"];
    let mut rust: Vec<OsString> = flags.into_iter().map(OsString::from).collect();
    let mut c = OsString::new();
    for (from, to) in places {
        let pair = joined(from, to);
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(&pair);
        rust.push(flag);
        c.push(" -ffile-prefix-map=");
        c.push(&pair);
    }
    let arguments = ["build", "--locked", "--target", release.target, "--profile", profile];
    let mut build = cargo(root, &arguments);
    build
        .env("CARGO_ENCODED_RUSTFLAGS", rust.join(std::ffi::OsStr::new("\u{1f}")))
        .env("CFLAGS", c)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TARGET_DIR", target)
        .env("LEVADA_BUILD_COMMIT", &release.commit)
        .env("LEVADA_BUILD_DATE", release.day()?)
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    if let Some(cross) = &release.cross {
        let name = release.target.replace('-', "_");
        build.env("RUSTC", cross.join("rustc"));
        build.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), cross.join("cc"));
        build.env(format!("CC_{name}"), cross.join("cc")).env(format!("AR_{name}"), cross.join("ar"));
    }
    let status = build.status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo {}: {status}", arguments.join(" ")));
    }
    // Cargo's directory of the profile `dev` has another name.
    let folder = if profile == "dev" { "debug" } else { profile };
    let binary = target.join(release.target).join(folder).join("levada");
    check(&binary, profile)?;
    // Only the profile of the packages makes these programs small.
    let ceiling = |name| if profile == "dist" { name } else { profile };
    check(&contents::beside(&binary, contents::LABORATORY), ceiling(LABORATORY))?;
    check(&contents::beside(&binary, contents::ENTRY), ceiling(ENTRY))?;
    Ok(binary)
}

/// Fails if the binary needs a shared library, or has grown beyond its ceiling; prints its size.
fn check(binary: &Path, profile: &str) -> Result<(), String> {
    let bytes = contents::read(binary)?;
    keeps_ceiling(bytes.len(), profile)?;
    if is_dynamic(&bytes).ok_or_else(|| format!("{}: no ELF file of 64 bits", binary.display()))? {
        return Err(format!("{}: not static", binary.display()));
    }
    println!("{}: static, {} bytes", binary.display(), bytes.len());
    Ok(())
}

/// Fails if a stripped binary of this profile is larger than the ceiling. Other profiles have none.
pub(super) fn keeps_ceiling(bytes: usize, profile: &str) -> Result<(), String> {
    match CEILINGS.into_iter().find(|(name, _)| *name == profile) {
        Some((_, ceiling)) if bytes > ceiling => Err(format!(
            "the stripped binary of the profile {profile} has {bytes} bytes, the ceiling is {ceiling}: find what \
             has grown, or raise the ceiling (docs/decisions/2026-11-24-binary-size.md)"
        )),
        _ => Ok(()),
    }
}

/// Note on a given binary that is not static: the image has no loader for it.
pub(super) fn note(path: &Path, bytes: &[u8]) -> Option<String> {
    let is_dynamic = is_dynamic(bytes) == Some(true);
    is_dynamic.then(|| {
        format!(
            "{}: not static: its packages are for checks only, and its image cannot run it",
            path.display()
        )
    })
}

/// True if the file names a loader, as only binaries with shared libraries do; `None` if it is no
/// ELF file of 64 bits.
pub(super) fn is_dynamic(file: &[u8]) -> Option<bool> {
    const LOADER: u32 = 3;
    let word = |at: usize, len: usize| {
        let bytes = file.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte)))
    };
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (table, size, count) = (word(0x20, 8)?, word(0x36, 2)?, word(0x38, 2)?);
    for index in 0..count {
        let at = usize::try_from(table + index * size).ok()?;
        if word(at, 4)? == u64::from(LOADER) {
            return Some(true);
        }
    }
    Some(false)
}
