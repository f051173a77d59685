//! A trial of the files of one architecture: the image in a separate root directory, or, for
//! another architecture than this machine's, the binary in an emulator.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::release::Release;
use super::{contents, rootfs};

/// Time for a start in the emulator.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn tried(root: &Path, release: &Release, out: &Path) -> Result<(), String> {
    if release.cross.is_some() {
        return emulated(release, &out.join(release.binary()));
    }
    rootfs::serves(root, (&out.join(release.image()), &out.join(release.binary())), 1)
}

/// Starts the binary, writes a record, reads it and stops the broker.
fn emulated(release: &Release, binary: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", binary.display());
    let version = contents::output(release.command(binary).arg("version"))?;
    let version = String::from_utf8_lossy(&version).into_owned();
    if !version.contains(&format!("target {}", release.target)) {
        return Err(format!("{}: not of {}: {version}", binary.display(), release.target));
    }
    let data = tempfile::tempdir().map_err(failed)?;
    // The port is free again when the broker opens it.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).map_err(failed)?;
    let address = free.to_string();
    let mut serve = release.command(binary);
    serve.args(["serve", "-o"]).arg(format!("log.dirs={}", data.path().display()));
    serve.args(["-o", &format!("listeners=PLAINTEXT://{address}"), "-o", "levada.http.listen="]);
    let mut broker = serve.stderr(Stdio::null()).spawn().map_err(failed)?;
    let outcome = exchanged(release, binary, (&mut broker, &address));
    let _ = Command::new("kill").args(["-TERM", &broker.id().to_string()]).status();
    let status = broker.wait().map_err(failed)?;
    outcome?;
    if !status.success() {
        return Err(format!("{}: the broker does not stop in order: {status}", binary.display()));
    }
    println!("{}: serves in an emulator", release.binary());
    Ok(())
}

fn exchanged(release: &Release, binary: &Path, (broker, address): (&mut Child, &str)) -> Result<(), String> {
    let client = |words: &[&str]| {
        let mut command = release.command(binary);
        command.args(words).args(["--brokers", address]);
        command
    };
    let start = Instant::now();
    while let Err(error) = contents::output(&mut client(&["topic", "create", "tried", "--if-not-exists"])) {
        let has_ended = broker.try_wait().is_ok_and(|ended| ended.is_some());
        if has_ended || start.elapsed() > LIMIT {
            return Err(format!("{}: no topic is created: {error}", binary.display()));
        }
    }
    let failed = |error: std::io::Error| format!("{}: {error}", binary.display());
    let mut producer = client(&["produce", "tried"]).stdin(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut input) = producer.stdin.take() {
        input.write_all(b"one\n").map_err(failed)?;
    }
    producer.wait().map_err(failed)?;
    let read = contents::output(&mut client(&["consume", "tried", "--exit"]))?;
    if read == b"one\n" { Ok(()) } else { Err(format!("{}: the record is not read", binary.display())) }
}
