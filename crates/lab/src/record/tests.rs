//! A record that was written can be read, and one that is none is refused with its line.

use super::*;
use crate::method::limits::Limits;
use crate::method::limits::Scale;

#[test]
fn what_was_written_is_read() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let path = bench.dir().join("new/record.jsonl");
    let mut recorder = Recorder::create(&path).unwrap();
    recorder.run(&bench, Limits::of(Scale::Tiny), 9).unwrap();
    recorder.note("transfer", Some(&Case::new("a", "b")), "left out: c".to_owned()).unwrap();
    assert_eq!(read(&path).unwrap(), recorder.lines());
    assert!(matches!(Recorder::create(&path), Err(LabError::File { .. })), "a record was overwritten");
}

#[test]
fn what_is_no_record_is_refused_with_its_line() {
    fn check(text: &str, line: &str, word: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        fs::write(&path, text).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(line) && error.contains(word), "{error}");
    }
    check("", "line 1", "type run");
    check("{\"type\":\"note\",\"text\":\"x\"}\n", "line 1", "type run");
    check("\n{\"type\":\"other\"}\n", "line 2", "other");
    check("{\"type\":\"sample\"\n", "line 1", "EOF");
}

#[test]
fn a_newer_form_is_refused_and_unknown_fields_are_not() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let mut recorder = Recorder::in_memory();
    recorder.run(&bench, Limits::of(Scale::Tiny), 9).unwrap();
    let text = serde_json::to_string(&recorder.lines()[0]).unwrap();
    let path = bench.dir().join("r.jsonl");
    fs::write(&path, text.replace("\"seed\":9", "\"seed\":9,\"later\":1")).unwrap();
    assert_eq!(read(&path).unwrap(), recorder.lines()[..1]);
    fs::write(&path, text.replace("\"format\":1", "\"format\":2")).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("newer"), "{error}");
}
