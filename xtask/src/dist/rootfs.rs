//! A trial of the container image: another tool unpacks it, it serves from its own files as its own
//! account, and its health check passes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::contents;
use super::release::Release;

/// Unpacks the image, and runs its command and its health check with its settings.
pub(super) fn serves(root: &Path, release: &Release, out: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("image: {error}");
    let dir = tempfile::tempdir().map_err(failed)?;
    // The account of the image must be able to enter its root directory.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let plain = dir.path().join("plain");
    let archive = format!("oci-archive:{}", out.join(release.image()).display());
    let mut copy = Command::new("skopeo");
    contents::output(copy.args(["copy", "--quiet", &archive]).arg(format!("dir:{}", plain.display())))?;
    let manifest = json(&plain.join("manifest.json"))?;
    let layer = blob(&manifest["layers"][0]).ok_or("image: no layer")?;
    let rootfs = dir.path().join("rootfs");
    fs::create_dir(&rootfs).map_err(failed)?;
    let mut unpack = Command::new("tar");
    unpack.args(["--numeric-owner", "-xpzf"]).arg(plain.join(layer)).arg("-C").arg(&rootfs);
    contents::output(&mut unpack)?;
    if super::binary::is_dynamic(&contents::read(&out.join(release.binary()))?) == Some(true) {
        copy_libraries(&rootfs)?;
    }
    let config = json(&plain.join(blob(&manifest["config"]).ok_or("image: no settings")?))?;
    let settings = settings(&config["config"]).ok_or("image: incomplete settings")?;
    let mut check = Command::new("unshare");
    check.args(["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
    check.arg(root.join("deploy/check-image")).env("ROOT", &rootfs).envs(settings);
    print!("{}", String::from_utf8_lossy(&contents::output(&mut check)?));
    Ok(())
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
