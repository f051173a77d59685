//! Outputs of the runners, and the differences that count.

use super::kafka_only;
use super::outcome::{Outcome, Outcomes, go, pytest};

fn outcomes(list: &[(&str, Outcome)]) -> Outcomes {
    list.iter().map(|(test, outcome)| ((*test).to_string(), *outcome)).collect()
}

#[test]
fn only_subtests_of_a_go_test_count() {
    let output = r#"
{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA/one"}
{"Action":"fail","Test":"TestA/two"}
{"Action":"fail","Test":"TestA"}
{"Action":"pass","Test":"TestB"}
{"Action":"skip","Test":"TestC"}
{"Action":"pass","Test":"TestD/one"}
{"Action":"fail","Test":"TestD"}
{"Action":"fail","Package":"p"}
{"Action":"fail","Package":"q/r","FailedBuild":"somebody/else"}
not json
"#;
    let expected = [
        ("TestA/one", Outcome::Passed),
        ("TestA/two", Outcome::Failed),
        ("TestB", Outcome::Passed),
        ("TestC", Outcome::Skipped),
        ("TestD", Outcome::Failed),
        ("TestD/one", Outcome::Passed),
        ("q/r (not built)", Outcome::Failed),
    ];
    assert_eq!(go(output), outcomes(&expected));
}

#[test]
fn pytest_names_each_test_in_its_summary() {
    let output = "test_a.py ..F\nPASSED test/test_a.py::test_one[gzip]\nFAILED test/test_a.py::test_two - assert 1\n\
                  ERROR test/test_a.py::test_three\nSKIPPED [3] test/test_a.py:38: not here\nERROR in the log\n";
    let expected = [
        ("test/test_a.py::test_one[gzip]", Outcome::Passed),
        ("test/test_a.py::test_two", Outcome::Failed),
        ("test/test_a.py::test_three", Outcome::Failed),
        ("[3] test/test_a.py:38: not here", Outcome::Skipped),
    ];
    assert_eq!(pytest(output), outcomes(&expected));
}

#[test]
fn tests_passed_only_by_kafka_are_listed() {
    let kafka = outcomes(&[
        ("TestBoth", Outcome::Passed),
        ("TestFails", Outcome::Passed),
        ("TestMissing", Outcome::Passed),
        ("TestNeither", Outcome::Failed),
    ]);
    let levada = outcomes(&[
        ("TestBoth", Outcome::Passed),
        ("TestFails", Outcome::Failed),
        ("TestNeither", Outcome::Failed),
    ]);
    assert_eq!(kafka_only(&levada, &kafka), ["TestFails", "TestMissing"]);
}
