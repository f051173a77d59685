//! Lines that are counted, and lines that are not.

use super::{Verdict, outcome};

#[test]
fn verdict_counts_only_result_lines() {
    let table = [
        (
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            Some((12, 0)),
        ),
        ("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured", Some((3, 2))),
        ("test foo::bar ... ok", None),
        ("12 passed; 0 failed", None),
        ("test result: ok. many passed; 0 failed;", None),
    ];
    for (line, expected) in table {
        assert_eq!(outcome(line), expected, "{line}");
    }
}

const TWO_FAILED: &str = "\
running 3 tests
test a::fine ... ok
test a::wrong ... FAILED

failures:

---- a::wrong stdout ----
thread 'a::wrong' panicked at a.rs:1:1:
    indented words of its own
    indented

failures:
    a::wrong
    b::wrong

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

    afterwards
";

#[test]
fn verdict_names_failed_tests() {
    let names = ["a::wrong", "b::wrong"].map(String::from).to_vec();
    assert_eq!(Verdict::new(TWO_FAILED, false), Verdict { passed: 1, failed: 2, names });
}

#[test]
fn a_failure_without_a_failed_test_counts_once() {
    assert_eq!(Verdict::new("error: could not compile", false).failed, 1);
    let aborted = "test result: ok. 2 passed; 0 failed; 0 ignored\nSegmentation fault";
    assert_eq!(Verdict::new(aborted, false), Verdict { passed: 2, failed: 1, names: Vec::new() });
    assert_eq!(Verdict::new("Finished", true), Verdict::default());
}
