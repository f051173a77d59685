//! The lines that are counted, and those that are not.

use super::{outcome, split_at_dashes};

#[test]
fn counts_result_lines_only() {
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

#[test]
fn arguments_split_at_the_first_dashes() {
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(
        split_at_dashes(&words("--test hostile -- one two")),
        (vec!["--test", "hostile"], vec!["one", "two"])
    );
    assert_eq!(split_at_dashes(&words("--test hostile")), (vec!["--test", "hostile"], vec![]));
    assert_eq!(split_at_dashes(&[]), (vec![], vec![]));
}
