//! Lines of the log, whatever is in them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use super::*;

/// The line of the log with this value in it.
fn line(value: &str) -> String {
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let kept = Kept::default();
    let writer = kept.clone();
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .fmt_fields(debug_fn(write_field).delimited(" "))
        .with_writer(move || writer.clone());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(log), || {
        tracing::info!(text = value, shown = %value, number = 7, "about {value}");
    });
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn log_line_cannot_forge_another_line() {
    let forged = line("eve\n2026-11-23T00:00:00Z ERROR levada_broker: FORGED LINE");
    assert_eq!(forged.lines().count(), 1, "{forged}");
    for steering in ["\r", "\x1b[2J", "\u{85}", "\u{9b}31m", "\u{2028}", "\u{202e}", "\0", "\x7f"] {
        let line = line(&format!("a{steering}b"));
        let ended = line.strip_suffix('\n').unwrap();
        assert!(!ended.chars().any(is_steering), "{line:?}");
    }
    let plain = line("Öl \\ \"quoted\"");
    assert!(
        plain.ends_with(
            "about Öl \\ \"quoted\" text=\"Öl \\\\ \\\"quoted\\\"\" shown=Öl \\ \"quoted\" number=7\n"
        ),
        "{plain}"
    );
}

#[test]
fn private_audit_log_is_reopened_after_rename() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    let sink = Sink::start();
    assert!(sink.write_to(&home.path().join("missing/audit.log")).is_err());
    sink.write_to(&path).unwrap();
    let mut writer = sink.writer()();
    writer.write_all(b"one\n").unwrap();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    while read(&path) != "one\n" {
        std::thread::yield_now();
    }
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o137, 0, "{mode:o}");
    let old = home.path().join("audit.log.1");
    std::fs::rename(&path, &old).unwrap();
    writer.write_all(b"two\n").unwrap();
    drop(sink);
    assert_eq!((read(&old).as_str(), read(&path).as_str()), ("one\n", "two\n"));
}

#[test]
fn json_log_line_has_no_terminal_controls() {
    let mut written = Vec::new();
    let line = serde_json::json!({"message": "a\u{9b}31m \u{202e} \u{7f} \n Öl"});
    JsonLine(&mut written).write_all(format!("{line}\n").as_bytes()).unwrap();
    let text = String::from_utf8(written).unwrap();
    let ended = text.strip_suffix('\n').unwrap();
    assert!(!ended.chars().any(is_steering), "{text:?}");
    let read: serde_json::Value = serde_json::from_str(ended).unwrap();
    assert_eq!(read, line);
}

#[test]
fn directives_give_levels_to_loggers() {
    let found = levels("info,levada_broker::server=debug,levada_log=off,[span]=trace");
    let expected =
        [("root", LogLevel::Info), ("levada_broker::server", LogLevel::Debug), ("levada_log", LogLevel::Off)];
    assert_eq!(found, expected.map(|(name, level)| (name.to_owned(), level)).into());
}

#[test]
fn invalid_log_directives_are_refused_empty_ignored() {
    let shown = |directives| targets(directives).map(|targets| targets.to_string());
    assert_eq!(shown("debug"), Ok("debug".to_owned()));
    assert_eq!(shown(" info, levada_log=off, ,"), Ok("levada_log=off,info".to_owned()));
    assert_eq!(shown("levada_coordination::group"), Ok("levada_coordination::group=trace".to_owned()));
    assert_eq!(shown(""), Ok(String::new()));
    assert_eq!(
        shown("dbug").unwrap_err(),
        "\"dbug\" is not a level (error, warn, info, debug, trace or off)"
    );
    for wrong in ["levada_log=dbug", "a=b=c", "info,rustls"] {
        assert!(targets(wrong).is_err(), "{wrong}");
    }
    assert_eq!(levels("info,"), [("root".to_owned(), LogLevel::Info)].into());
}

#[test]
fn split_log_text_is_escaped() {
    let mut text = String::new();
    let mut escaping = Escaping(&mut text);
    for part in ["a", "\n", "b\tc", "", "\u{202e}d"] {
        escaping.write_str(part).unwrap();
    }
    assert_eq!(text, "a\\nb\\tc\\u{202e}d");
}
