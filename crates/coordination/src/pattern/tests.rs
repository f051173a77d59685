//! Tests of `pattern`.

use std::cell::Cell;

use super::*;

thread_local! {
    /// Number of expressions that this thread has compiled.
    pub static COMPILATIONS: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn an_expression_matches_whole_names() {
    let matches = |pattern: &str, name: &str| whole(pattern).unwrap().matches(name);
    assert!(matches("a|ab", "ab") && matches("a.*", "abc") && matches("", ""));
    assert!(!matches("a", "ab") && !matches("b", "ab") && !matches("a|b", "ab"));
}

#[test]
fn unbalanced_patterns_are_refused() {
    for pattern in ["a)|(b", ")(", "(", "[", "a{2"] {
        // The last one is text to this syntax, and matches itself.
        assert_eq!(whole(pattern).is_ok(), pattern == "a{2" && Regex::new(pattern).is_ok(), "{pattern}");
    }
}

#[test]
fn large_patterns_are_refused() {
    assert!(whole(&"a".repeat(PATTERN_BYTES_MAX)).is_ok());
    assert!(whole(&"a".repeat(PATTERN_BYTES_MAX + 1)).is_err());
    for pattern in [r"\pL{400}", r"(\pL{30}){30}"] {
        assert!(matches!(whole(pattern), Err(Error::CompiledTooBig(_))), "{pattern}");
    }
}

#[test]
fn pattern_repetition_is_limited_to_1000_times() {
    for pattern in ["a{1000}", "(?:a{10}){100}", "(?:a{1000})(?:b{1000})", "(?:a*){1000}", "(?:a{3,}){333}"] {
        assert!(whole(pattern).is_ok(), "{pattern}");
    }
    for pattern in
        ["a{1001}", "(?:[a-m]?[!-~]?){3000}X", "(?:a{10}){101}", "(?:a{0,40}b){26}", "(a{1001,}b)?"]
    {
        let refused = whole(pattern).unwrap_err().to_string();
        assert!(refused.contains("1000 times"), "{pattern}: {refused}");
    }
}

#[test]
fn comparison_piece_is_bounded_by_names_times_states() {
    let names: Vec<String> = (0..500).map(|number| format!("{number:060}")).collect();
    let pieces = |patterns: &[&str]| {
        let mut comparison = Comparison::of(patterns.iter().map(|&pattern| pattern.to_owned()).collect());
        let mut pieces = 1;
        while comparison.go_on(&names, |name| !name.ends_with('7')) {
            pieces += 1;
        }
        (pieces, comparison.found())
    };
    let (count, found) = pieces(&["0*1[0-9]?", "none", "a("]);
    let found: Vec<(&str, usize)> = found.iter().map(|(pattern, names)| (&**pattern, names.len())).collect();
    assert_eq!((count, &found[..]), (1, &[("0*1[0-9]?", 10), ("a(", 0), ("none", 0)][..]));
    let (count, found) = pieces(&["(?:[a-m]?[!-~]?){1000}X", "0*2"]);
    assert!((10..100).contains(&count), "{count} pieces");
    assert_eq!(found["0*2"].len(), 1);
}

#[test]
fn pattern_cache_keeps_latest_of_each_size() {
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
