//! Arguments of `cargo xtask black-box`.

use super::split_at_dashes;

#[test]
fn arguments_split_at_the_first_dashes() {
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let split = |text: &str| {
        let words = words(text);
        let (names, filters) = split_at_dashes(&words);
        (names.join(" "), filters.join(" "))
    };
    let table = [
        ("hostile -- one two", "hostile", "one two"),
        ("hostile", "hostile", ""),
        ("hostile --", "hostile", ""),
        ("-- one -- two", "", "one -- two"),
        ("", "", ""),
    ];
    for (text, names, filters) in table {
        assert_eq!(split(text), (names.to_owned(), filters.to_owned()), "{text}");
    }
}
