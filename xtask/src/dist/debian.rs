//! A separate Debian system to test packages: a container with systemd as process 1, a loopback
//! interface as its only network, and a copy of the system that is removed afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::contents;
use crate::deps;

const RELEASE: &str = "bookworm";

/// Packages in addition to the smallest system: an init, and a client of the quick starts.
const INCLUDED: &str = "--include=systemd-sysv,util-linux,rpm,python3-confluent-kafka";

/// Unit that runs the check at each boot of the container. The check requests a reboot by a file.
const UNIT: &str = "[Unit]
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardOutput=append:/mnt/output
StandardError=inherit
ExecStart=/bin/sh -c '/bin/sh /mnt/check-packages; code=$$?; \\
    if rm /mnt/reboot 2>/dev/null; then exec systemctl --no-block reboot 2>/dev/null; fi; \\
    echo $$code >/mnt/status; exec systemctl --no-block poweroff 2>/dev/null'
";

/// Exit code of systemd-nspawn when the container requests a reboot.
const REBOOT: i32 = 133;

/// Path of a fresh Debian, which is made if it is missing.
fn install() -> Result<PathBuf, String> {
    let place = deps::install_container()?;
    if place.exists() {
        return Ok(place);
    }
    println!("installing: a Debian for trying packages into {}", place.display());
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    let fresh = place.with_extension("new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(failed)?;
    }
    contents::output(Command::new("debootstrap").args(["--variant=minbase", INCLUDED, RELEASE]).arg(&fresh))?;
    fs::rename(&fresh, &place).map_err(failed)?;
    Ok(place)
}

/// Boots a copy of the Debian and runs `check-packages` of a directory in it, which the container
/// has as `/mnt`. Prints the output of the check.
pub(super) fn run(shared: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("container: {error}");
    let place = install()?;
    let copies = tempfile::tempdir().map_err(failed)?;
    let system = copies.path().join("levada-packages");
    contents::output(Command::new("cp").args(["-a", "--reflink=auto"]).arg(&place).arg(&system))?;
    let units = system.join("etc/systemd/system");
    fs::create_dir_all(units.join("multi-user.target.wants")).map_err(failed)?;
    fs::write(units.join("check.service"), UNIT).map_err(failed)?;
    std::os::unix::fs::symlink("../check.service", units.join("multi-user.target.wants/check.service"))
        .map_err(failed)?;
    let console =
        fs::File::options().create(true).append(true).open(shared.join("console")).map_err(failed)?;
    let status = loop {
        let mut container = Command::new("systemd-nspawn");
        container.args(["--quiet", "--private-network", "--register=no", "--keep-unit", "--console=pipe"]);
        container.arg("--directory").arg(&system).arg(format!("--bind={}:/mnt", shared.display()));
        let stream = || console.try_clone().map(Stdio::from).map_err(failed);
        container.arg("--boot").stdin(Stdio::null()).stdout(stream()?).stderr(stream()?);
        let status = container.status().map_err(|error| format!("systemd-nspawn: {error}"))?;
        if status.code() != Some(REBOOT) {
            break status;
        }
    };
    let text = |name: &str| fs::read_to_string(shared.join(name)).unwrap_or_default();
    print!("{}", text("output"));
    match text("status").trim() {
        "0" => Ok(()),
        "" => Err(format!("{}the container ended before the check: {status}", text("console"))),
        code => Err(format!("the check failed with status {code}")),
    }
}
