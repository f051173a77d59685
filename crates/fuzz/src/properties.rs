//! Any bytes as a configuration file: it is understood or refused with the line that is wrong.

use levada_config::parse_properties;

/// Checks one input.
pub fn run(input: &[u8]) {
    let lines = input.split(|byte| matches!(byte, b'\n' | b'\r')).count();
    match parse_properties(input) {
        Ok(entries) => {
            for entry in entries {
                assert!((1..=lines + 1).contains(&entry.line), "line {} of {lines}", entry.line);
            }
        }
        Err(error) => assert!((1..=lines + 1).contains(&error.line), "line {} of {lines}", error.line),
    }
}
