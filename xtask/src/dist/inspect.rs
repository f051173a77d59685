//! Short checks of the published files by tools that share no code with them: contents and rights
//! of the packages, the scripts, the unit, the image's settings, the SBOM and the checksums.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::release::Release;
use super::{contents, legal};
use crate::markdown;

/// System calls that the broker or its laboratory makes and that a set of forbidden ones contains.
pub(super) const CALLS: [&str; 5] =
    ["mincore", "cachestat", "sched_setscheduler", "setpriority", "sched_setaffinity"];

/// Highest exposure of the unit, of 10, as `systemd-analyze security` rates it.
const EXPOSURE_MAX: f64 = 2.5;

/// Files of both packages with their modes, without manual pages, completions of zsh, and the
/// licence.
const FILES: [(&str, u32); 21] = [
    ("etc/levada/server.properties", 0o640),
    ("usr/bin/levada", 0o755),
    ("usr/bin/levada-lab", 0o755),
    ("usr/lib/systemd/system/levada.service", 0o644),
    ("usr/lib/systemd/system/levada.socket", 0o644),
    ("usr/lib/sysusers.d/levada.conf", 0o644),
    ("usr/lib/tmpfiles.d/levada.conf", 0o644),
    ("usr/sbin/levada-backup", 0o755),
    ("usr/sbin/levada-restore", 0o755),
    ("usr/share/bash-completion/completions/levada", 0o644),
    ("usr/share/doc/levada/README.md", 0o644),
    ("usr/share/doc/levada/SECURITY.md", 0o644),
    ("usr/share/doc/levada/deploy/monitoring/alerts.yml", 0o644),
    ("usr/share/doc/levada/deploy/monitoring/cruise-control.yml", 0o644),
    ("usr/share/doc/levada/deploy/monitoring/grafana-dashboard.json", 0o644),
    ("usr/share/doc/levada/CHANGELOG.md", 0o644),
    ("usr/share/doc/levada/docs/operating/monitoring.md", 0o644),
    ("usr/share/fish/vendor_completions.d/levada.fish", 0o644),
    ("usr/share/man/man1/levada.1.gz", 0o644),
    ("usr/share/man/man1/levada-serve.1.gz", 0o644),
    ("usr/share/man/man5/levada.properties.5.gz", 0o644),
];

/// Runs every short check on the files in `out`.
pub(super) fn everything(root: &Path, release: &Release, out: &Path) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| format!("temporary directory: {error}"))?;
    contents::output(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(out))?;
    deb(release, &out.join(release.deb()), dir.path())?;
    system(release, &dir.path().join("data"))?;
    documents(&dir.path().join("data").join(contents::DOCUMENTS))?;
    unit(&dir.path().join("data"), dir.path())?;
    rpm(root, &out.join(release.rpm()))?;
    image(&out.join(release.image()))?;
    bill(release, &out.join(release.sbom()))?;
    println!("contents of the packages: ok");
    Ok(())
}

/// Unpacks the .deb with dpkg into `data` and `control`, and checks its lists and scripts.
fn deb(release: &Release, package: &Path, dir: &Path) -> Result<(), String> {
    let (data, control) = (dir.join("data"), dir.join("control"));
    for (option, into) in [("--extract", &data), ("--control", &control)] {
        contents::output(Command::new("dpkg-deb").arg(option).arg(package).arg(into))?;
    }
    for (path, mode) in FILES {
        let found = fs::metadata(data.join(path)).map_err(|error| format!("deb: {path}: {error}"))?;
        let found = found.permissions().mode() & 0o7777;
        if found != mode {
            return Err(format!("deb: {path} has mode {found:o}, not {mode:o}"));
        }
    }
    let sums = control.join("md5sums");
    contents::output(Command::new("md5sum").args(["--check", "--quiet"]).arg(sums).current_dir(&data))?;
    let configs = contents::read(&control.join("conffiles"))?;
    if configs != b"/etc/levada/server.properties\n" {
        return Err(format!("deb: conffiles: {}", String::from_utf8_lossy(&configs)));
    }
    for script in ["postinst", "postrm", "prerm"] {
        contents::output(Command::new("sh").arg("-n").arg(control.join(script)))?;
    }
    let text = |path: &str| contents::read(&data.join(path));
    let copyright = String::from_utf8_lossy(&text(legal::COPYRIGHT)?).into_owned();
    if !copyright.contains("/usr/share/common-licenses/Apache-2.0") {
        return Err(format!("deb: {} does not refer to Debian's text of the licence", legal::COPYRIGHT));
    }
    let changes = data.join("usr/share/doc/levada/changelog.gz");
    let plain = dir.join("changelog");
    let unpacked =
        contents::output(Command::new("gzip").arg("--to-stdout").arg("--decompress").arg(changes))?;
    fs::write(&plain, unpacked).map_err(|error| format!("{}: {error}", plain.display()))?;
    let mut parse = Command::new("dpkg-parsechangelog");
    let parsed = contents::output(parse.args(["--show-field", "Version", "--file"]).arg(&plain))?;
    let version = format!("{}\n", release.version);
    if parsed == version.as_bytes() {
        Ok(())
    } else {
        Err(format!("deb: changelog of version {}", String::from_utf8_lossy(&parsed)))
    }
}

/// Checks the files of a system: the configuration is valid, completions and manual pages can be
/// read.
fn system(release: &Release, data: &Path) -> Result<(), String> {
    let config = data.join("etc/levada/server.properties");
    let mut show = release.command(&data.join("usr/bin/levada"));
    contents::output(show.args(["config", "show", "--changed", "--config"]).arg(config))?;
    let completions = data.join("usr/share/bash-completion/completions/levada");
    contents::output(Command::new("bash").arg("-n").arg(completions))?;
    let manual = data.join("usr/share/man/man1");
    let pages = fs::read_dir(&manual).map_err(|error| format!("{}: {error}", manual.display()))?;
    let mut gzip = Command::new("gzip");
    gzip.arg("--test").args(pages.flatten().map(|page| page.path()));
    contents::output(&mut gzip).map(drop)
}

/// Checks that each link between the documents in this directory leads to a file or a directory.
fn documents(dir: &Path) -> Result<(), String> {
    let mut waiting = vec![dir.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            waiting.extend(fs::read_dir(&path).map_err(failed)?.flatten().map(|file| file.path()));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = String::from_utf8_lossy(&contents::read(&path)?).into_owned();
            let page = path.strip_prefix(dir).unwrap_or(&path);
            let is_lost = |target: &&str| {
                let file = markdown::file(page, target);
                !markdown::is_remote(target) && file.is_none_or(|file| !dir.join(file).exists())
            };
            if let Some(target) = markdown::links(&text).iter().map(|link| link.target).find(is_lost) {
                return Err(format!("deb: {}: the link leads nowhere: {target}", path.display()));
            }
        }
    }
    Ok(())
}

/// Checks the units: valid to systemd, the service little exposed and with a command that the
/// package has, the socket for a listener of the packaged configuration.
fn unit(data: &Path, dir: &Path) -> Result<(), String> {
    let file = data.join("usr/lib/systemd/system/levada.service");
    let text = String::from_utf8_lossy(&contents::read(&file)?).into_owned();
    let command = "ExecStart=/usr/bin/levada serve --config /etc/levada/server.properties";
    if !text.lines().any(|line| line == command) {
        return Err(format!("{}: no line {command}", file.display()));
    }
    let forbidden = forbidden(&text);
    if !forbidden.is_empty() {
        return Err(format!("{}: SystemCallFilter forbids {}", file.display(), forbidden.join(", ")));
    }
    // The check looks for the binary in this system.
    let binary = format!("ExecStart={} ", data.join("usr/bin/levada").display());
    let local = dir.join("levada.service");
    fs::write(&local, text.replace("ExecStart=/usr/bin/levada ", &binary))
        .map_err(|error| format!("{}: {error}", local.display()))?;
    let (socket, local_socket) = (file.with_extension("socket"), dir.join("levada.socket"));
    let socket_text = String::from_utf8_lossy(&contents::read(&socket)?).into_owned();
    let config = contents::read(&data.join("etc/levada/server.properties"))?;
    if !fits(&socket_text, &String::from_utf8_lossy(&config)) {
        return Err(format!(
            "{}: server.properties has no listener of this name and address",
            socket.display()
        ));
    }
    fs::write(&local_socket, socket_text).map_err(|error| format!("{}: {error}", local_socket.display()))?;
    let mut verify = Command::new("systemd-analyze");
    contents::output(verify.args(["verify", "--man=no"]).args([&local, &local_socket]))?;
    let mut security = Command::new("systemd-analyze");
    let said = contents::output(security.args(["security", "--offline=true", "--no-pager"]).arg(&file))?;
    let found = exposure(&String::from_utf8_lossy(&said)).ok_or("systemd-analyze security: no figure")?;
    println!("exposure of the unit: {found} of 10");
    if found <= EXPOSURE_MAX {
        Ok(())
    } else {
        Err(format!("the unit's exposure is {found}; {EXPOSURE_MAX} is the limit"))
    }
}

/// True if a listener of the configuration has the name and the address of the socket.
pub(super) fn fits(socket: &str, config: &str) -> bool {
    let value = |text: &str, key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
    };
    let listeners = value(config, "listeners").unwrap_or_default();
    match (value(socket, "FileDescriptorName"), value(socket, "ListenStream")) {
        (Some(name), Some(address)) => {
            let wanted = format!("{}://{address}", name.to_uppercase());
            listeners.split(',').any(|listener| listener.trim() == wanted)
        }
        _ => false,
    }
}

/// System calls of [`CALLS`] that the unit does not allow after the last set that it forbids.
pub(super) fn forbidden(unit: &str) -> Vec<&'static str> {
    let mut allowed: Vec<&str> = Vec::new();
    for filter in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        if filter.starts_with('~') {
            allowed.clear();
        } else {
            allowed.extend(filter.split_whitespace());
        }
    }
    CALLS.into_iter().filter(|call| !allowed.contains(call)).collect()
}

/// The figure in the last line of `systemd-analyze security`.
pub(super) fn exposure(said: &str) -> Option<f64> {
    said.lines()
        .rev()
        .find(|line| !line.trim().is_empty())?
        .split_whitespace()
        .find_map(|word| word.parse().ok())
}

/// Checks the .rpm by rpm itself: digests, files with modes and owners, scripts.
fn rpm(root: &Path, package: &Path) -> Result<(), String> {
    let database = tempfile::tempdir().map_err(|error| format!("temporary directory: {error}"))?;
    let rpm = |arguments: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--dbpath").arg(database.path()).args(arguments).arg(package).current_dir(root);
        contents::output(&mut rpm).map(|said| String::from_utf8_lossy(&said).into_owned())
    };
    rpm(&["--checksig", "--nosignature"])?;
    let format = "[%{FILENAMES} %{FILEMODES:octal} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags}\n]";
    let listed = rpm(&["--query", "--queryformat", format, "--package"])?;
    let has = |line: &str| {
        if listed.lines().any(|listed| listed.trim_end() == line) {
            Ok(())
        } else {
            Err(format!("rpm: no line `{line}` in\n{listed}"))
        }
    };
    for (path, mode) in FILES.iter().filter(|(path, _)| !path.starts_with("etc")) {
        has(&format!("/{path} 100{mode:o} root:root"))?;
    }
    // c: a configuration file; n: an upgrade leaves it alone.
    has("/etc/levada/server.properties 100640 root:levada cn")?;
    has("/etc/levada 40750 root:levada")?;
    // l: a licence.
    has("/usr/share/licenses/levada/LICENSE 100644 root:root l")?;
    has("/var/lib/levada 40750 levada:levada")?;
    let scripts = rpm(&["--query", "--scripts", "--package"])?;
    let kinds = ["preinstall", "postinstall", "preuninstall", "postuninstall"];
    match kinds.iter().find(|kind| !scripts.contains(&format!("{kind} scriptlet"))) {
        None => Ok(()),
        Some(kind) => Err(format!("rpm: no {kind} scriptlet")),
    }
}

/// Checks the settings of the image.
fn image(archive: &Path) -> Result<(), String> {
    let config = &settings(archive, &[])?["config"];
    let user = super::oci::USER;
    let expected = [
        ("User", Value::from(format!("{user}:{user}"))),
        ("Entrypoint", Value::from(vec![format!("/usr/bin/{}", contents::ENTRY)])),
        ("Cmd", Value::from(vec!["serve"])),
        ("StopSignal", Value::from("SIGTERM")),
    ];
    for (key, value) in expected {
        if config[key] != value {
            return Err(format!("image: {key} is {}, not {value}", config[key]));
        }
    }
    // A check of /healthz would end a broker that serves without one of its directories.
    let check = &config["Healthcheck"]["Test"];
    match check.as_array().map(Vec::as_slice) {
        Some([shell, .., question]) if shell == "CMD" && question == "--live" => Ok(()),
        _ => Err(format!("image: the health check is {check}, not a command with --live")),
    }
}

/// Checks that the archive for several architectures has an image for each.
pub(super) fn images(releases: &[Release], archive: &Path) -> Result<(), String> {
    for release in releases {
        let architecture = release.debian_architecture();
        let config = settings(archive, &["--override-arch", architecture])?;
        if config["architecture"] != architecture {
            return Err(format!("image: {} in place of {architecture}", config["architecture"]));
        }
    }
    println!("image for {} architectures: ok", releases.len());
    Ok(())
}

/// Settings of an image in an archive as skopeo reads them.
fn settings(archive: &Path, options: &[&str]) -> Result<Value, String> {
    let mut skopeo = Command::new("skopeo");
    skopeo.args(options).args(["inspect", "--config", "--raw"]);
    let settings = contents::output(skopeo.arg(format!("oci-archive:{}", archive.display())))?;
    serde_json::from_slice(&settings).map_err(|error| format!("{}: {error}", archive.display()))
}

/// Checks that the SBOM names linked crates and omits those of tests, that its references lead to
/// packages, and that the packages of these sources name their commit.
fn bill(release: &Release, path: &Path) -> Result<(), String> {
    let bill: Value = serde_json::from_slice(&contents::read(path)?)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let packages = || bill["packages"].as_array().into_iter().flatten();
    let names: BTreeSet<&str> = packages().filter_map(|package| package["name"].as_str()).collect();
    let ids: BTreeSet<&str> = packages().filter_map(|package| package["SPDXID"].as_str()).collect();
    if ids.len() != packages().count() {
        return Err("SBOM: an identifier is used twice".to_owned());
    }
    let mut related = bill["relationships"].as_array().into_iter().flatten();
    if let Some(lost) =
        related.find(|one| one["relatedSpdxElement"].as_str().is_none_or(|id| !ids.contains(id)))
    {
        return Err(format!("SBOM: a relationship leads nowhere: {lost}"));
    }
    let names_commit =
        |package: &Value| package["sourceInfo"].as_str().is_some_and(|text| text.contains(&release.commit));
    let own = packages().filter(|package| package["externalRefs"].is_null());
    if let Some(package) = own.into_iter().find(|package| !names_commit(package)) {
        return Err(format!("SBOM: {} does not name commit {}", package["name"], release.commit));
    }
    let wrong = ["levada", "levada-io", "ring", "libc"].iter().find(|name| !names.contains(**name));
    let excess = ["proptest", "xtask", "cc"].iter().find(|name| names.contains(**name));
    match (wrong, excess) {
        (None, None) => Ok(()),
        (Some(name), _) => Err(format!("SBOM: {name} is missing")),
        (_, Some(name)) => Err(format!("SBOM: {name} is not linked")),
    }
}
