//! Messages on stderr, whose reader may be gone: `eprintln!` would panic, after the work is done.

use std::fmt;
use std::io::{self, Write as _};

/// Prints a message and the end of its line.
pub(crate) fn tell(message: fmt::Arguments<'_>) {
    write(&format!("{message}\n"));
}

/// Prints a question, after which the answer is typed.
pub(crate) fn ask(question: &str) {
    write(question);
}

fn write(text: &str) {
    // A command does not fail because nothing reads its messages.
    let _ = io::stderr().write_all(text.as_bytes());
}
