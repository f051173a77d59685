//! Regular expressions of clients. They match whole names, and both their length and their compiled
//! size are bounded. Compiled expressions are cached, so that a pattern that a blocking thread has
//! compiled is ready for all threads, and the patterns of a large group are compiled once.

use std::collections::VecDeque;

use parking_lot::Mutex;
use regex::{Error, Regex, RegexBuilder};

/// Longest expression, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// A size of compiled expressions, and a cache of those that have it.
struct Tier {
    /// Maximum memory in bytes of a compiled expression, and of the cache of its matches.
    bytes_max: usize,
    /// Number of expressions that are cached.
    cached_max: usize,
    /// The last one used comes first.
    cached: Mutex<VecDeque<(String, Regex)>>,
}

/// The tier of an expression is the smallest that it fits into. Each tier takes at most 32 MiB, and
/// the same again for the caches of matches.
static TIERS: [Tier; 2] = [Tier::of(1 << 15, 1024), Tier::of(1 << 20, 32)];

impl Tier {
    const fn of(bytes_max: usize, cached_max: usize) -> Self {
        Self { bytes_max, cached_max, cached: Mutex::new(VecDeque::new()) }
    }

    fn cached(&self, pattern: &str) -> Option<Regex> {
        let mut last = self.cached.lock();
        let at = last.iter().position(|(known, _)| known == pattern)?;
        let found = last.remove(at)?;
        let compiled = found.1.clone();
        last.push_front(found);
        Some(compiled)
    }

    fn compile(&self, pattern: &str) -> Result<Regex, Error> {
        let compiled = RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
            .size_limit(self.bytes_max)
            .dfa_size_limit(self.bytes_max)
            .build()?;
        let mut last = self.cached.lock();
        last.truncate(self.cached_max - 1);
        last.push_front((pattern.to_owned(), compiled.clone()));
        Ok(compiled)
    }
}

/// The expression, to match whole names. Compiling takes milliseconds at worst; a cached one is not
/// compiled again.
///
/// # Errors
/// It is not an expression, or too large.
pub(crate) fn whole(pattern: &str) -> Result<Regex, Error> {
    let cached = TIERS.iter().find_map(|tier| tier.cached(pattern));
    cached.map_or_else(|| compile(pattern), Ok)
}

/// True if [`whole`] would not compile the expression.
pub(crate) fn is_cached(pattern: &str) -> bool {
    TIERS.iter().any(|tier| tier.cached.lock().iter().any(|(known, _)| known == pattern))
}

fn compile(pattern: &str) -> Result<Regex, Error> {
    #[cfg(test)]
    tests::COMPILATIONS.set(tests::COMPILATIONS.get() + 1);
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Error::CompiledTooBig(PATTERN_BYTES_MAX));
    }
    // Parsed separately first: an unmatched parenthesis must not close one outside. The limit
    // leaves no room to compile it.
    if let Err(error @ Error::Syntax(_)) = RegexBuilder::new(pattern).size_limit(0).build() {
        return Err(error);
    }
    let [small, large] = &TIERS;
    match small.compile(pattern) {
        Err(Error::CompiledTooBig(_)) => large.compile(pattern),
        compiled => compiled,
    }
}

#[cfg(test)]
pub(crate) mod tests;
