//! Written values are read, missing ones keep their default, and wrong ones are named.

use super::*;

#[test]
fn thresholds_round_trip() {
    let thresholds = Thresholds {
        small_extent_bytes: 24 << 10,
        pipe_bytes: 256 << 10,
        zero_copy_send_bytes: 12 << 10,
        registered_send_bytes: 2 << 10,
        ..Thresholds::default()
    };
    let text = thresholds.to_text("measured\n\non a machine");
    assert!(text.starts_with("# measured\n#\n# on a machine\nsmall_extent_bytes=24576\n"), "{text}");
    assert_eq!(Thresholds::parse(&text), Ok(thresholds));
}

#[test]
fn omitted_thresholds_keep_their_defaults() {
    let default = Thresholds::default();
    assert_eq!(Thresholds::parse(""), Ok(default));
    let expected = Thresholds { pipe_bytes: 64 << 10, pipe_floor_bytes: 64 << 10, ..default };
    assert_eq!(Thresholds::parse("\n  # small pipes\n pipe_bytes = 65536 \n"), Ok(expected));
}

#[test]
fn invalid_thresholds_error_names_file_and_line() {
    fn check(text: &str, line: usize, words: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("thresholds");
        fs::write(&path, text).unwrap();
        let error = Thresholds::load(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}, line {line}: ", path.display())), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    check("pipe_bytes", 1, &["key=value"]);
    check("# a\npipes=1", 2, &["pipes", "there are small_extent_bytes"]);
    check("pipe_bytes=4096\npipe_bytes=4096", 2, &["pipe_bytes", "twice"]);
    check("pipe_bytes=many", 1, &["pipe_bytes", "many"]);
    check("pipe_bytes=-1", 1, &["pipe_bytes", "-1"]);
    check("pipe_bytes=1", 1, &["pipe_bytes", "4096 to"]);
    check("small_extent_bytes=131073", 1, &["small_extent_bytes", "131073"]);
    check("zero_copy_send_bytes=0", 1, &["zero_copy_send_bytes"]);
    check("registered_send_bytes=99999999999999999999", 1, &["registered_send_bytes"]);
    let error = Thresholds::load(Path::new("/nowhere/thresholds")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/thresholds"), "{error}");
}

#[test]
fn default_thresholds_are_within_their_limits() {
    for (key, (_, bytes)) in KEYS.iter().zip(Thresholds::default().calibrated()) {
        assert!((key.range.0..=key.range.1).contains(&bytes), "{}", key.name);
    }
    assert!(KEYS[0].range.1 <= Thresholds::default().copy_bytes as u64);
}
