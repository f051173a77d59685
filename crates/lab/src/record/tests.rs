//! A written record is readable, and an invalid record is refused with the number of the line.

use super::*;
use crate::method::limits::Limits;
use crate::method::limits::Scale;

#[test]
fn written_record_is_read_unchanged() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let path = bench.dir().join("new/record.jsonl");
    let mut recorder = Recorder::create(&path).unwrap();
    recorder.run(&bench, Limits::of(Scale::Tiny), 9).unwrap();
    recorder.note("transfer", Some(&Case::new("a", "b")), "left out: c".to_owned()).unwrap();
    assert_eq!(read(&path).unwrap(), recorder.lines());
    assert!(
        matches!(Recorder::create(&path), Err(LabError::File { .. })),
        "the recorder replaced an existing record"
    );
}

#[test]
fn invalid_record_is_refused_with_its_line() {
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
fn record_accepts_unknown_fields_but_no_newer_format() {
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

#[test]
fn non_finite_value_keeps_record_readable() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let path = bench.dir().join("r.jsonl");
    let mut recorder = Recorder::create(&path).unwrap();
    recorder.run(&bench, Limits::of(Scale::Tiny), 9).unwrap();
    let values = [("rate", f64::INFINITY), ("ratio", f64::NAN), ("cost", 2.0)];
    let sample = Sample {
        experiment: "a".to_owned(),
        group: String::new(),
        case: "b".to_owned(),
        params: BTreeMap::new(),
        round: 1,
        metrics: values.map(|(name, value)| (name.to_owned(), value)).into(),
        verdict: None,
    };
    recorder.add(Line::Sample(sample)).unwrap();
    let lines = read(&path).unwrap();
    assert_eq!(lines, recorder.lines());
    let Some(Line::Sample(read)) = lines.last() else { panic!("{lines:?}") };
    assert_eq!(read.metrics, BTreeMap::from([("cost".to_owned(), 2.0)]));
}

#[test]
fn record_contains_command_as_the_user_types_it() {
    let of = |words: &[&str]| command(words.iter().map(|word| (*word).to_owned())).join(" ");
    assert_eq!(of(&["/usr/bin/levada-lab", "copy", "--quick"]), "/usr/bin/levada lab copy --quick");
    assert_eq!(of(&["test-program"]), "test-program");
}
