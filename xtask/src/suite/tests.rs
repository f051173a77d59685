//! Arguments, and the lists of suites.

use std::path::Path;

use super::{ALONE, LONG, SOAK_ONLY, split_at_dashes};

#[test]
fn arguments_split_at_the_first_dashes() {
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let split = |text: &str| {
        let words = words(text);
        let (options, filters) = split_at_dashes(&words);
        (options.join(" "), filters.join(" "))
    };
    let table = [
        ("--test hostile -- one two", "--test hostile", "one two"),
        ("--test hostile", "--test hostile", ""),
        ("--test hostile --", "--test hostile", ""),
        ("-- one -- two", "", "one -- two"),
        ("", "", ""),
    ];
    for (text, options, filters) in table {
        assert_eq!(split(text), (options.to_owned(), filters.to_owned()), "{text}");
    }
}

/// A suite under another name would lose its place.
#[test]
fn suites_with_a_place_of_their_own_exist() {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tests");
    for name in ALONE.iter().chain(&LONG).chain(&SOAK_ONLY) {
        assert!(suites.join(name).with_extension("rs").exists(), "tests/tests/{name}.rs is not there");
    }
}
