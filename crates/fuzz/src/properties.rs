//! Any text as a configuration file: it is understood or refused with the line that is wrong.

use levada_broker::config::parse_properties;

/// Checks one input.
pub fn run(input: &[u8]) {
    let text = input.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let lines = text.lines().count().max(1);
    match parse_properties(text) {
        Ok(entries) => {
            for entry in entries {
                assert!((1..=lines + 1).contains(&entry.line), "line {} of {lines}", entry.line);
            }
        }
        Err(error) => assert!((1..=lines + 1).contains(&error.line), "line {} of {lines}", error.line),
    }
}
