//! Colours: only on a terminal, and not if `NO_COLOR` or `TERM=dumb` is set.

use std::env;
use std::io::{IsTerminal, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

/// Style of words on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Bold: headers.
    Bold,
    /// Green: a good state.
    Green,
    /// Red: a problem.
    Red,
}

static ON_STDOUT: AtomicBool = AtomicBool::new(false);
static ON_STDERR: AtomicBool = AtomicBool::new(false);

/// Checks once where the streams go; before that, nothing is coloured.
pub fn decide() {
    ON_STDOUT.store(wanted(stdout().is_terminal(), |name| env::var(name).ok()), Ordering::Relaxed);
    ON_STDERR.store(wanted(stderr().is_terminal(), |name| env::var(name).ok()), Ordering::Relaxed);
}

/// True if stderr takes colours.
pub fn on_stderr() -> bool {
    ON_STDERR.load(Ordering::Relaxed)
}

/// The text for stdout, with or without colour.
pub fn out(style: Style, text: &str) -> String {
    paint(ON_STDOUT.load(Ordering::Relaxed), style, text)
}

/// The text for stderr, with or without colour.
pub fn err(style: Style, text: &str) -> String {
    paint(on_stderr(), style, text)
}

/// <https://no-color.org>: set and not empty.
fn wanted(terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let forbidden = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    terminal && !forbidden && variable("TERM").as_deref() != Some("dumb")
}

fn paint(on: bool, style: Style, text: &str) -> String {
    let code = match style {
        Style::Bold => "1",
        Style::Green => "32",
        Style::Red => "1;31",
    };
    if on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_that_supports_them() {
        fn check(terminal: bool, variables: &[(&str, &str)], expected: bool) {
            let find = |name: &str| variables.iter().find(|one| one.0 == name).map(|one| one.1.to_owned());
            assert_eq!(wanted(terminal, find), expected, "{variables:?}");
        }
        check(true, &[("TERM", "xterm")], true);
        check(true, &[("NO_COLOR", "")], true);
        check(true, &[("NO_COLOR", "1")], false);
        check(true, &[("TERM", "dumb")], false);
        check(false, &[], false);
        assert_eq!(paint(false, Style::Red, "x"), "x");
        assert_eq!(paint(true, Style::Red, "x"), "\x1b[1;31mx\x1b[0m");
    }
}
