//! Regular expressions of clients. They match whole names, and both their length and their compiled
//! size are bounded. The last ones are cached, so that a pattern that a blocking thread has
//! compiled is ready for all threads.

use std::collections::VecDeque;

use parking_lot::Mutex;
use regex::{Error, Regex, RegexBuilder};

/// Longest expression, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// Most memory of a compiled expression, in bytes, and most of what matching remembers.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Number of expressions that are remembered.
const REMEMBERED: usize = 32;

/// The last one used comes first.
static COMPILED: Mutex<VecDeque<(String, Regex)>> = Mutex::new(VecDeque::new());

/// The expression, to match whole names. Compiling takes milliseconds at worst; one of the last is
/// not compiled again.
///
/// # Errors
/// It is not an expression, or too large.
pub(crate) fn whole(pattern: &str) -> Result<Regex, Error> {
    if let Some(compiled) = remembered(pattern) {
        return Ok(compiled);
    }
    let compiled = compile(pattern)?;
    let mut last = COMPILED.lock();
    last.truncate(REMEMBERED - 1);
    last.push_front((pattern.to_owned(), compiled.clone()));
    Ok(compiled)
}

fn remembered(pattern: &str) -> Option<Regex> {
    let mut last = COMPILED.lock();
    let at = last.iter().position(|(known, _)| known == pattern)?;
    let found = last.remove(at)?;
    let compiled = found.1.clone();
    last.push_front(found);
    Some(compiled)
}

fn compile(pattern: &str) -> Result<Regex, Error> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Error::CompiledTooBig(PATTERN_BYTES_MAX));
    }
    // Parsed alone first: a stray parenthesis must not find its partner outside. There is no room
    // to compile it.
    if let Err(error @ Error::Syntax(_)) = RegexBuilder::new(pattern).size_limit(0).build() {
        return Err(error);
    }
    RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .build()
}

#[cfg(test)]
mod tests;
