//! Lines in each form, with values that would like to be more than that.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, UNIX_EPOCH};

use http::StatusCode;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::{Draft, LogFormat, LogOptions, Result, Writer, write_line};
use crate::socket::Peer;
use crate::stats::Stats;

/// More time than a log on a healthy disk needs.
const LONG: Duration = Duration::from_secs(600);

fn draft(target: &str, agent: Option<&str>) -> Draft {
    Draft {
        method: "GET".to_owned(),
        target: target.to_owned(),
        is_1_1: true,
        host: Some("x".to_owned()),
        referer: None,
        agent: agent.map(str::to_owned),
    }
}

fn result() -> Result {
    Result {
        peer: Peer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
        status: StatusCode::OK,
        bytes: 5,
        taken: Duration::from_millis(1500),
        now: UNIX_EPOCH + Duration::from_millis(784_111_777_250),
    }
}

fn line(form: LogFormat, target: &str, agent: Option<&str>) -> String {
    let mut lines = Vec::new();
    write_line(&mut lines, form, &draft(target, agent), result());
    String::from_utf8(lines).unwrap()
}

#[test]
fn access_log_forms_match_their_definitions() {
    let common = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a HTTP/1.1\" 200 5";
    assert_eq!(line(LogFormat::Common, "/a", None), format!("{common}\n"));
    assert_eq!(line(LogFormat::Combined, "/a", Some("curl")), format!("{common} \"-\" \"curl\"\n"));
    let object: serde_json::Value = serde_json::from_str(&line(LogFormat::Json, "/a", Some("curl"))).unwrap();
    assert_eq!(object["time"], "1994-11-06T08:49:37.250Z");
    assert_eq!(
        (&object["status"], &object["bytes"], &object["seconds"]),
        (&200.into(), &5.into(), &1.5.into())
    );
    assert_eq!((&object["agent"], &object["referer"]), (&"curl".into(), &serde_json::Value::Null));
}

#[test]
fn access_log_values_cannot_end_lines() {
    for form in [LogFormat::Common, LogFormat::Combined, LogFormat::Json] {
        let line = line(form, "/\"\\ü\u{1b}[31m", Some("a\"\r\nb"));
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.bytes().all(|byte| byte == b'\n' || byte >= 0x20), "{line:?}");
        if form != LogFormat::Json {
            assert!(line.contains(r"/\x22\x5C\xC3\xBC\x1B[31m"), "{line}");
        }
    }
}

#[test]
fn json_log_line_escapes_controls_and_keeps_values() {
    let agent = "a\u{7f}b\u{9b}31mü\u{a0}";
    let line = line(LogFormat::Json, "/a", Some(agent));
    assert!(!line.trim_end().chars().any(char::is_control), "{line:?}");
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["agent"], agent);
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let stats = Arc::new(Stats::default());
    let options = LogOptions { path: "/dev/full".into(), form: LogFormat::Common };
    let writer = Writer::start(&options, stats.clone()).unwrap();
    let handle = writer.handle(stats.clone());
    for _ in 0..3 {
        handle.note(&draft("/a", None), result());
    }
    drop(handle);
    writer.finish(LONG);
    assert_eq!(stats.log_lines_dropped_total(), 3);
}

/// A pipe under a name, with a reader that reads nothing.
fn pipe(path: &Path) -> File {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let reader = rustix::fs::open(path, flags, Mode::empty()).unwrap();
    rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
    reader.into()
}

/// A log that takes no more lines, since its disk takes none.
fn blocked(path: &Path) -> Writer {
    let stats = Arc::new(Stats::default());
    let options = LogOptions { path: path.to_owned(), form: LogFormat::Common };
    let writer = Writer::start(&options, stats.clone()).unwrap();
    let handle = writer.handle(stats.clone());
    let long = draft(&"x".repeat(8 << 10), None);
    while stats.log_lines_dropped_total() == 0 {
        handle.note(&long, result());
    }
    writer
}

#[test]
fn reopening_does_not_wait_for_blocked_access_log() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("log");
    let mut reader = pipe(&path);
    let writer = blocked(&path);
    std::fs::rename(&path, home.path().join("moved")).unwrap();
    writer.reopen();
    // The pipe ends when the file is opened in its place.
    std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    assert!(path.exists());
    writer.finish(LONG);
}

#[test]
fn stop_waits_briefly_for_blocked_access_log() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("log");
    let mut reader = pipe(&path);
    blocked(&path).finish(Duration::from_millis(1));
    assert_eq!(reader.read(&mut [0; 1]).unwrap(), 1, "the thread still has the pipe");
}

#[test]
fn access_log_pipe_needs_a_reader() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("log");
    drop(pipe(&path));
    let options = LogOptions { path, form: LogFormat::Common };
    assert!(Writer::start(&options, Arc::default()).is_err());
}
