//! `levada files` and programs that others use servers of files with: ApacheBench, aria2, rclone, a
//! browser that seeks, a checker of HTTP.
//!
//! Suite: long; 7 s; needs ab, aria2c, chromium, http, rclone

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use levada_tests::files::FileServer;
use levada_tests::{await_some, paths};
use rustix::process::{Pid, Signal};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Bytes that tell where they are.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 * 7 + at) as u8).collect()
}

#[test]
fn apache_bench_has_no_failed_requests() {
    let server = FileServer::start(&[], |root| fs::write(root.join("file"), bytes(3000)).expect("a file"));
    for keep in [&["-k"][..], &[]] {
        let mut bench = Command::new("ab");
        let said = output(bench.args(["-q", "-n", "2000", "-c", "20"]).args(keep).arg(server.url("/file")));
        let value = |name: &str| -> u64 {
            let line =
                said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{said}"));
            line.trim_end_matches("bytes").trim().parse().expect("a number")
        };
        assert_eq!((value("Complete requests:"), value("Failed requests:")), (2000, 0), "{said}");
        assert_eq!(value("HTML transferred:"), 2000 * 3000, "{said}");
        assert!(!said.contains("Non-2xx"), "{said}");
        if !keep.is_empty() {
            assert_eq!(value("Keep-Alive requests:"), 2000, "{said}");
        }
    }
    server.stop();
}

#[test]
fn aria2_downloads_over_sixteen_connections() {
    const LEN: usize = 40_000_001;
    let log = tempfile::NamedTempFile::new().expect("a file");
    let path = log.path().to_str().expect("a path");
    let server = FileServer::start(&["--access-log", path], |root| {
        fs::write(root.join("file"), bytes(LEN)).expect("a file");
    });
    let mut aria = Command::new("aria2c");
    aria.args(["-q", "-x16", "-s16", "-k1M", "--file-allocation=none", "--no-conf", "-d"]).arg(server.home());
    output(aria.args(["-o", "fetched", &server.url("/file")]));
    assert!(fs::read(server.home().join("fetched")).expect("a file") == bytes(LEN));
    server.stop();
    let lines = fs::read_to_string(path).expect("the log");
    let parts = lines.lines().filter(|line| line.contains("\" 206 ")).count();
    assert!(parts >= 16, "{parts} parts: {lines}");
}

#[test]
fn rclone_copies_a_tree_and_reads_parts() {
    let names = ["a.txt", "dir/b &%c.bin", "dir/sub dir/ü.bin", "empty", "large"];
    let server = FileServer::start(&["--listing"], |root| {
        for (number, name) in names.into_iter().enumerate() {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, bytes([10, 20_000, 300_000, 0, 5_000_000][number])).expect("a file");
        }
    });
    let rclone = |arguments: &[&str]| {
        let mut command = Command::new("rclone");
        command.args(["--config", "/dev/null", "--http-url", &server.url("/")]);
        output(command.args(arguments))
    };
    let copy = server.home().join("copy");
    rclone(&["copy", ":http:", copy.to_str().expect("a path")]);
    for name in names {
        let same = |root: &Path| fs::read(root.join(name)).expect("a file");
        assert!(same(&copy) == same(&server.root()), "{name}");
    }
    assert_eq!(rclone(&["cat", "--offset", "3", "--count", "4", ":http:a.txt"]).as_bytes(), &bytes(10)[3..7]);
    server.stop();
}

/// Five minutes of silence, as a sound file: the header and two bytes a sample.
fn sound() -> Vec<u8> {
    const RATE: u32 = 48_000;
    const SECONDS: u32 = 300;
    let len = RATE * 2 * SECONDS;
    let mut file = Vec::with_capacity(44 + len as usize);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + len).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend_from_slice(&RATE.to_le_bytes());
    file.extend_from_slice(&(RATE * 2).to_le_bytes());
    file.extend_from_slice(b"\x02\0\x10\0data");
    file.extend_from_slice(&len.to_le_bytes());
    file.resize(44 + len as usize, 0);
    file
}

/// Seeks, and tells the server where it has arrived.
const PLAYER: &str = "<audio id=a preload=metadata src=sound.wav></audio><script>
const a = document.getElementById('a');
a.onloadedmetadata = () => { a.currentTime = 280; };
a.onseeked = () => fetch('arrived?' + Math.round(a.currentTime) + '-of-' + Math.round(a.duration));
</script>";

#[test]
fn browser_seeks_by_range_requests() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let path = log.path().to_str().expect("a path");
    let server = FileServer::start(&["--access-log", path], |root| {
        fs::write(root.join("sound.wav"), sound()).expect("a file");
        fs::write(root.join("player.html"), PLAYER).expect("a file");
    });
    let mut browser = Command::new("chromium");
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--remote-debugging-port=0",
    ]);
    browser.arg(format!("--user-data-dir={}", server.home().join("browser").display()));
    browser.arg(server.url("/player.html")).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut browser = browser.spawn().expect("the browser is there");
    let arrived = || {
        let lines = fs::read_to_string(path).expect("the log");
        lines.contains("GET /arrived?").then_some(lines)
    };
    let lines = await_some("the browser at its place", LIMIT, arrived);
    let group = Pid::from_raw(browser.id().cast_signed()).expect("a child has a pid");
    rustix::process::kill_process_group(group, Signal::KILL).expect("it is there");
    browser.wait().expect("it ends");
    assert!(lines.contains("GET /arrived?280-of-300 "), "{lines}");
    // The beginning, which the browser has broken off, may be written down later than the place
    // that it sought.
    server.stop();
    let lines = fs::read_to_string(path).expect("the log");
    let parts = lines.lines().filter(|line| line.contains("GET /sound.wav ") && line.contains("\" 206 "));
    assert!(parts.count() >= 2, "the beginning and what was sought: {lines}");
}

#[test]
fn http_conformance_checker_finds_no_error() {
    let server = FileServer::start(&["--precompressed", "--listing"], |root| {
        fs::write(root.join("index.html"), "<!doctype html><title>t</title><p>text".repeat(300))
            .expect("a file");
        fs::write(root.join("large.bin"), bytes(300_000)).expect("a file");
        fs::create_dir(root.join("list")).expect("a directory");
        output(Command::new("gzip").arg("-k").arg(root.join("index.html")));
    });
    for path in ["/", "/large.bin", "/list/", "/list", "/missing"] {
        let said = output(Command::new(paths::http_checker()).args(["-o", "har", &server.url(path)]));
        let archive: Value = serde_json::from_str(&said).expect("a HTTP archive");
        let entries = archive["log"]["entries"].as_array().expect("a list");
        let notes: Vec<&Value> =
            entries.iter().filter_map(|entry| entry["_red_messages"].as_array()).flatten().collect();
        assert!(notes.iter().any(|note| note["level"] == "GOOD"), "{path}: nothing was checked: {said}");
        let bad: Vec<_> = notes.iter().filter(|note| note["level"] == "BAD").collect();
        assert!(bad.is_empty(), "{path}: {bad:?}");
    }
    server.stop();
}
