//! Tests of `pattern`.

use super::*;

#[test]
fn an_expression_matches_whole_names() {
    let matches = |pattern: &str, name: &str| whole(pattern).unwrap().is_match(name);
    assert!(matches("a|ab", "ab") && matches("a.*", "abc") && matches("", ""));
    assert!(!matches("a", "ab") && !matches("b", "ab") && !matches("a|b", "ab"));
}

#[test]
fn a_parenthesis_does_not_find_its_partner_outside() {
    for pattern in ["a)|(b", ")(", "(", "[", "a{2"] {
        // The last one is text to this syntax, and matches itself.
        assert_eq!(whole(pattern).is_ok(), pattern == "a{2" && Regex::new(pattern).is_ok(), "{pattern}");
    }
}

#[test]
fn expressions_that_are_large_or_become_large_are_refused() {
    assert!(whole(&"a".repeat(PATTERN_BYTES_MAX)).is_ok());
    assert!(whole(&"a".repeat(PATTERN_BYTES_MAX + 1)).is_err());
    for pattern in [r"\pL{400}", "((a{100}){100}){100}", r"(\pL{30}){30}"] {
        assert!(matches!(whole(pattern), Err(Error::CompiledTooBig(_))), "{pattern}");
    }
}

#[test]
fn the_last_expressions_are_remembered_and_no_more() {
    for number in 0..3 * REMEMBERED {
        whole(&format!("remembered-{number}")).unwrap();
    }
    assert!(COMPILED.lock().len() <= REMEMBERED);
    whole("remembered-again").unwrap();
    assert!(remembered("remembered-again").is_some());
}
