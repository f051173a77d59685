//! Lists as values.

/// The words of a list value, trimmed, without empty words.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}
