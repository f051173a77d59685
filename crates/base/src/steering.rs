//! Characters that steer a terminal.

/// True for control characters, line separators, and characters that change the direction of text.
pub fn is_steering(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
