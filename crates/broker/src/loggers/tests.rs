//! Levels of loggers: which one holds, what is refused, and that every module that logs has a
//! logger.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::*;

fn loggers() -> (Loggers, Arc<Mutex<Vec<String>>>) {
    let applied = Arc::<Mutex<Vec<String>>>::default();
    let seen = applied.clone();
    let base = [("root", LogLevel::Info), ("levada_broker::server", LogLevel::Debug)];
    let base = base.map(|(name, level)| (name.to_owned(), level)).into();
    let apply = move |directives: &str| {
        seen.lock().push(directives.to_owned());
        Ok(())
    };
    (Loggers::new(base, Box::new(apply)), applied)
}

fn set(level: &str) -> LevelChange {
    LevelChange::Set(level.to_owned())
}

fn level(loggers: &Loggers, name: &str) -> &'static str {
    loggers.levels().into_iter().find(|(found, _)| *found == name).unwrap().1
}

#[test]
fn logger_inherits_closest_parent_level() {
    let (loggers, applied) = loggers();
    assert_eq!((level(&loggers, "root"), level(&loggers, "levada_log.writer")), ("INFO", "INFO"));
    assert_eq!(level(&loggers, "levada_broker.server"), "DEBUG");
    loggers.alter(&[("levada_broker", set("ERROR")), ("root", set("WARN"))], false).unwrap();
    assert_eq!(level(&loggers, "levada_broker.api"), "ERROR");
    assert_eq!(level(&loggers, "levada_broker.server"), "DEBUG");
    assert_eq!(level(&loggers, "levada_log"), "WARN");
    loggers.alter(&[("levada_broker.server", set("FATAL"))], false).unwrap();
    assert_eq!(level(&loggers, "levada_broker.server"), "FATAL");
    loggers.alter(&[("levada_broker.server", LevelChange::Delete)], false).unwrap();
    assert_eq!(level(&loggers, "levada_broker.server"), "DEBUG", "the level of the start");
    let expected = [
        "levada_broker=error,warn",
        "levada_broker=error,levada_broker::server=off,warn",
        "levada_broker=error,warn",
    ];
    assert_eq!(*applied.lock(), expected);
}

#[test]
fn invalid_logger_change_has_kafkas_message_without_effect() {
    let (loggers, applied) = loggers();
    let invalid = ErrorCode::InvalidRequest;
    let cases = [
        ("nobody", set("INFO"), ErrorCode::InvalidConfig, "Logger nobody does not exist!"),
        (
            "root",
            set("info"),
            ErrorCode::InvalidConfig,
            "Cannot set the log level of root to info as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        ("root", LevelChange::Delete, invalid, "Removing the log level of the root logger is not allowed"),
        ("nobody", LevelChange::Delete, ErrorCode::InvalidConfig, "Logger nobody does not exist!"),
        (
            "root",
            LevelChange::Refused("APPEND"),
            invalid,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            "root",
            LevelChange::Unknown(9),
            invalid,
            "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource",
        ),
    ];
    for (name, change, code, message) in cases {
        let failure = loggers.alter(&[("levada_log", set("TRACE")), (name, change)], false).unwrap_err();
        assert_eq!((failure.code, failure.message.as_deref()), (code, Some(message)));
    }
    loggers.alter(&[("levada_log", set("TRACE"))], true).unwrap();
    assert_eq!(level(&loggers, "levada_log"), "INFO");
    assert!(applied.lock().is_empty());
}

#[test]
fn every_module_that_logs_has_a_logger() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // The other crates are those of other programs.
    for name in ["base", "broker", "config", "coordination", "log", "metadata", "process", "security", "web"]
    {
        for entry in fs::read_dir(crates.join(name).join("src")).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let logger = format!("levada_{name}.{}", path.file_stem().unwrap().to_str().unwrap());
            // The audit log has a file and a level of its own.
            let logger = logger.strip_suffix(".lib").unwrap_or(&logger).to_owned();
            let is_listed = NAMES.contains(&&*logger) || logger == "levada_security.audit";
            assert!(is_listed || !logs(&path), "{logger} logs, and is not a logger");
        }
    }
    for name in NAMES {
        let (crate_name, module) = name.split_once('.').unwrap_or((name, "lib"));
        let path = crates.join(crate_name.strip_prefix("levada_").unwrap()).join("src").join(module);
        assert!(path.with_extension("rs").exists() || path.is_dir(), "{name} names no module");
    }
}

/// True if a file, or a file below a folder, writes lines of the log.
fn logs(path: &Path) -> bool {
    if path.is_dir() {
        fs::read_dir(path).unwrap().any(|entry| logs(&entry.unwrap().path()))
    } else {
        let text = fs::read_to_string(path).unwrap();
        ["info", "warn", "error", "debug"].iter().any(|level| text.contains(&format!("tracing::{level}!")))
    }
}
