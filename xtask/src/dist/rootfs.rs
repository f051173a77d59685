//! A trial of the container image: another tool unpacks it, it serves from its own files as its own
//! account, its health check passes, and unmodified Testcontainers starts it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::release::{self, Release};
use super::{contents, oci};
use crate::deps;

/// An image in a directory.
struct Unpacked {
    /// Parent of the other directory, which exists as long as this value.
    dir: tempfile::TempDir,
    rootfs: PathBuf,
    /// The settings of the image.
    config: Value,
}

/// Makes the image of a binary that was built before, and starts it this many times by each way.
pub(super) fn starts(root: &Path, built: &Path, starts: u32) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("image: {error}");
    let scratch = tempfile::tempdir().map_err(failed)?;
    let release = Release::of(root, release::native())?;
    let binary = super::stripped(built, scratch.path())?;
    let image = oci::Image::of(root, &release, &binary)?;
    let archive = scratch.path().join(release.image());
    fs::write(&archive, oci::archive(&release, &[image])?).map_err(failed)?;
    serves(root, (&archive, &binary), starts)
}

/// Unpacks the image of a binary, starts it with Testcontainers, and runs its command and its
/// health check with its settings.
pub(super) fn serves(root: &Path, files: (&Path, &Path), starts: u32) -> Result<(), String> {
    deps::check_namespaces()?;
    deps::install(root, &[deps::INSPECTION, deps::TESTCONTAINERS].into())?;
    let image = unpacked(files)?;
    // First, because the other check leaves data in the root directory.
    testcontainers(root, &image, starts)?;
    let settings = settings(&image.config).ok_or("image: incomplete settings")?;
    let mut check = Command::new("unshare");
    check.args(deps::NAMESPACES).arg("sh").arg(root.join("deploy/check-image"));
    check.env("ROOT", &image.rootfs).env("STARTS", starts.to_string()).envs(settings);
    print!("{}", String::from_utf8_lossy(&contents::output(&mut check)?));
    Ok(())
}

fn testcontainers(root: &Path, image: &Unpacked, starts: u32) -> Result<(), String> {
    let settings = image.dir.path().join("settings");
    fs::write(&settings, image.config.to_string()).map_err(|error| format!("image: {error}"))?;
    let mut run = Command::new("sh");
    run.arg(root.join("tests/testcontainers/run")).args([&image.rootfs, &settings]);
    run.args([deps::testcontainers_path(root)?, starts.to_string()]);
    print!("{}", String::from_utf8_lossy(&contents::output(&mut run)?));
    Ok(())
}

/// The image in an archive, with the libraries of its binary if it needs any.
fn unpacked((archive, binary): (&Path, &Path)) -> Result<Unpacked, String> {
    let failed = |error: std::io::Error| format!("image: {error}");
    let dir = tempfile::tempdir().map_err(failed)?;
    // The account of the image must be able to enter its root directory.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let plain = dir.path().join("plain");
    let mut copy = Command::new("skopeo");
    copy.args(["copy", "--quiet"]).arg(format!("oci-archive:{}", archive.display()));
    contents::output(copy.arg(format!("dir:{}", plain.display())))?;
    let manifest = json(&plain.join("manifest.json"))?;
    let layer = blob(&manifest["layers"][0]).ok_or("image: no layer")?;
    let rootfs = dir.path().join("rootfs");
    fs::create_dir(&rootfs).map_err(failed)?;
    let mut unpack = Command::new("tar");
    unpack.args(["--numeric-owner", "-xpzf"]).arg(plain.join(layer)).arg("-C").arg(&rootfs);
    contents::output(&mut unpack)?;
    if super::binary::is_dynamic(&contents::read(binary)?) == Some(true) {
        copy_libraries(&rootfs)?;
    }
    let config = json(&plain.join(blob(&manifest["config"]).ok_or("image: no settings")?))?;
    Ok(Unpacked { dir, rootfs, config: config["config"].clone() })
}

/// Copies the shared libraries that the programs need from this machine. The real image has none:
/// this is only for programs that were built for tests.
fn copy_libraries(rootfs: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("image: libraries: {error}");
    for program in ["levada", contents::ENTRY] {
        let said = contents::output(Command::new("ldd").arg(rootfs.join("usr/bin").join(program)))?;
        let text = String::from_utf8_lossy(&said).into_owned();
        let paths =
            text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
        for path in paths {
            let copy = rootfs.join(path.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().unwrap_or(rootfs)).map_err(failed)?;
            fs::copy(path, copy).map_err(failed)?;
        }
    }
    Ok(())
}

/// Variables of `check-image`, from the settings of an image; `None` if one is missing.
pub(super) fn settings(config: &Value) -> Option<Vec<(&'static str, String)>> {
    let (account, group) = config["User"].as_str()?.split_once(':')?;
    let entry = words(&config["Entrypoint"])?;
    let serve = [entry.as_str(), &words(&config["Cmd"])?].join(" ");
    let health = words(&config["Healthcheck"]["Test"])?;
    Some(vec![
        ("ACCOUNT", account.to_owned()),
        ("GROUP", group.to_owned()),
        ("PLACE", config["WorkingDir"].as_str()?.to_owned()),
        ("SETTINGS", words(&config["Env"])?),
        ("ENTRY", entry),
        ("SERVE", serve),
        ("HEALTH", health.strip_prefix("CMD ")?.to_owned()),
    ])
}

/// The strings of an array in one line; `None` if one of them would be more than one word.
fn words(array: &Value) -> Option<String> {
    let words: Vec<&str> = array.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    let is_word = |word: &&str| !word.is_empty() && !word.contains(char::is_whitespace);
    words.iter().all(is_word).then(|| words.join(" "))
}

/// Name of a blob's file.
fn blob(descriptor: &Value) -> Option<&str> {
    descriptor["digest"].as_str()?.strip_prefix("sha256:")
}

fn json(path: &Path) -> Result<Value, String> {
    serde_json::from_slice(&contents::read(path)?).map_err(|error| format!("{}: {error}", path.display()))
}
