//! Regular expressions of clients: they match whole names, and neither their length nor what they compile to is the client's
//! choice. The last ones are remembered, so that who compiles one where waiting disturbs nobody has compiled it for all.

use std::collections::VecDeque;

use parking_lot::Mutex;
use regex::{Error, Regex, RegexBuilder};

/// Longest expression, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// Most memory of a compiled expression, in bytes, and most of what matching remembers.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// How many expressions are remembered.
const REMEMBERED: usize = 32;

/// The last one used comes first.
static COMPILED: Mutex<VecDeque<(String, Regex)>> = Mutex::new(VecDeque::new());

/// The expression, to match whole names. Compiling takes milliseconds at worst; one of the last is not compiled again.
///
/// # Errors
/// It is no expression, or too large.
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
    // Parsed alone first: a stray parenthesis must not find its partner outside. There is no room to compile it.
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
