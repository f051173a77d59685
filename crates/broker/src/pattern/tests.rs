//! Tests of `pattern`.

use std::cell::Cell;

use super::*;

thread_local! {
    /// Number of expressions that this thread has compiled.
    pub(crate) static COMPILATIONS: Cell<usize> = const { Cell::new(0) };
}

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
fn the_last_expressions_of_each_size_are_cached_and_no_more() {
    let large = |number: usize| format!(r"\pL{{3}}large-{number}");
    let [few, many] = [&TIERS[1], &TIERS[0]].map(|tier| tier.cached_max);
    for number in 0..3 * few {
        whole(&large(number)).unwrap();
    }
    assert_eq!(TIERS[1].cached.lock().len(), few);
    for number in 0..2 * many {
        whole(&format!("small-{number}")).unwrap();
    }
    assert_eq!(TIERS[0].cached.lock().len(), many);
    let before = COMPILATIONS.get();
    whole(&format!("small-{}", 2 * many - 1)).unwrap();
    whole(&large(3 * few - 1)).unwrap();
    assert_eq!(COMPILATIONS.get(), before);
}
