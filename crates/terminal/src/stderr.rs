//! Messages on stderr, which may be closed: `eprintln!` would panic then, after the work is done.
//! Messages contain text of brokers and of their other clients, so that control characters are
//! escaped.

use std::fmt;
use std::io::{self, Write as _};

use crate::escapes::printable;

/// Prints a message and the end of its line.
pub fn tell(message: fmt::Arguments<'_>) {
    write(&format!("{}\n", plain(&message.to_string())));
}

/// Prints a message after a head, which may have a colour.
pub fn tell_headed(head: &str, message: &str) {
    write(&format!("{head} {}\n", plain(message)));
}

/// Prints a prompt, after which the user types.
pub fn ask(question: &str) {
    write(&plain(question));
}

/// Text in which no character controls the terminal.
fn plain(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| printable(line.as_bytes())).collect();
    lines.join("\n")
}

fn write(text: &str) {
    // A command does not fail because nothing reads its messages.
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn stderr_message_escapes_terminal_controls() {
        assert_eq!(plain("removed \x1b[2Jm\r\nnext"), "removed \\x1b[2Jm\\r\nnext");
    }
}
