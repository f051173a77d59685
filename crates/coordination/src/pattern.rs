//! Regular expressions of clients. They match whole names. Their length, their repetitions and
//! their compiled size are bounded. Compiled expressions are cached, so that a pattern that a
//! blocking thread has compiled is ready for all threads, and the patterns of a large group are
//! compiled once.
//!
//! The time of a comparison is linear in the name's length times the expression's states, and a
//! name can take a millisecond. Many names are therefore compared off the shards, in pieces
//! ([`Comparison`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec;

use parking_lot::Mutex;
use regex::{Error, Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

/// Longest expression, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// Maximum number of repetitions of a part of an expression, multiplied by those of enclosing
/// repetitions: the limit of RE2/J, which Kafka uses.
const REPETITIONS_MAX: u32 = 1000;

/// Cost of one piece of a comparison, in bytes times states: some tens of milliseconds.
const PIECE_COST_MAX: u64 = 1 << 22;

/// Cost of an expression that must be compiled: milliseconds at worst.
const COMPILATION_COST: u64 = PIECE_COST_MAX / 8;

/// Cost of a name before it is compared.
const NAME_COST: u64 = 256;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    regex: Regex,
    /// Number of states, about.
    states: u64,
}

impl Expression {
    /// True if the expression matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name)
    }

    /// Cost of a comparison with the name, at most: an automaton that cannot store its states
    /// follows all of them at each byte.
    fn cost(&self, name: &str) -> u64 {
        (name.len() as u64 + 1).saturating_mul(self.states)
    }
}

/// A size limit of compiled expressions, and a cache of the expressions within it.
struct Tier {
    /// Maximum memory in bytes of a compiled expression, and of the cache of its matches.
    bytes_max: usize,
    /// Number of expressions that are cached.
    cached_max: usize,
    /// Cached expressions, the most recently used first.
    cached: Mutex<VecDeque<(String, Expression)>>,
}

/// Tiers by size: an expression is in the smallest tier that it fits into. Each tier takes at most
/// 32 MiB, and the same again for the caches of matches.
static TIERS: [Tier; 2] = [Tier::of(1 << 15, 1024), Tier::of(1 << 20, 32)];

impl Tier {
    const fn of(bytes_max: usize, cached_max: usize) -> Self {
        Self { bytes_max, cached_max, cached: Mutex::new(VecDeque::new()) }
    }

    fn cached(&self, pattern: &str) -> Option<Expression> {
        let mut last = self.cached.lock();
        let at = last.iter().position(|(known, _)| known == pattern)?;
        let found = last.remove(at)?;
        let compiled = found.1.clone();
        last.push_front(found);
        Some(compiled)
    }

    fn compile(&self, pattern: &str, states: u64) -> Result<Expression, Error> {
        let regex = RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
            .size_limit(self.bytes_max)
            .dfa_size_limit(self.bytes_max)
            .build()?;
        let compiled = Expression { regex, states };
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
/// The pattern is not a valid expression, or too large.
pub fn whole(pattern: &str) -> Result<Expression, Error> {
    let cached = TIERS.iter().find_map(|tier| tier.cached(pattern));
    cached.map_or_else(|| compile(pattern), Ok)
}

/// True if [`whole`] would not compile the expression.
fn is_cached(pattern: &str) -> bool {
    TIERS.iter().any(|tier| tier.cached.lock().iter().any(|(known, _)| known == pattern))
}

fn compile(pattern: &str) -> Result<Expression, Error> {
    #[cfg(test)]
    tests::COMPILATIONS.set(tests::COMPILATIONS.get() + 1);
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Error::CompiledTooBig(PATTERN_BYTES_MAX));
    }
    // Parsed separately first: an unmatched parenthesis must not close one outside.
    let parsed = regex_syntax::parse(pattern).map_err(|error| Error::Syntax(error.to_string()))?;
    let Some(states) = states(&parsed, REPETITIONS_MAX) else {
        let text = format!("a part is repeated more than {REPETITIONS_MAX} times");
        return Err(Error::Syntax(text));
    };
    let [small, large] = &TIERS;
    match small.compile(pattern, states) {
        Err(Error::CompiledTooBig(_)) => large.compile(pattern, states),
        compiled => compiled,
    }
}

/// Number of states of an expression, about; none if a part is repeated more often than this.
fn states(part: &Hir, repetitions_max: u32) -> Option<u64> {
    Some(match part.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        HirKind::Capture(capture) => states(&capture.sub, repetitions_max)?,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            let once = states(&repetition.sub, repetitions_max.checked_div(times).filter(|left| *left > 0)?)?;
            (once + 1).saturating_mul(u64::from(times))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            let mut sum = 1_u64;
            for part in parts {
                sum = sum.saturating_add(states(part, repetitions_max)?);
            }
            sum
        }
    })
}

/// The comparison of expressions with names, in pieces.
#[derive(Debug, Default)]
pub struct Comparison {
    waiting: vec::IntoIter<String>,
    current: Option<UnderWay>,
    found: BTreeMap<String, BTreeSet<String>>,
}

/// An expression that is being compared.
#[derive(Debug)]
struct UnderWay {
    pattern: String,
    expression: Expression,
    /// Index of the next name to compare.
    at: usize,
    matches: BTreeSet<String>,
}

impl Comparison {
    /// A comparison that has not begun.
    pub fn of(patterns: Vec<String>) -> Self {
        Self { waiting: patterns.into_iter(), ..Self::default() }
    }

    /// Compares the next piece, at least one name; the names are the same for each piece. Skips
    /// names that `admits` does not permit. Returns true if names remain.
    pub fn go_on(&mut self, names: &[impl AsRef<str>], admits: impl Fn(&str) -> bool) -> bool {
        let mut cost = 0;
        while let Some(mut current) = self.current.take().or_else(|| self.next(&mut cost)) {
            while let Some(name) = names.get(current.at).map(AsRef::as_ref) {
                if cost >= PIECE_COST_MAX {
                    self.current = Some(current);
                    return true;
                }
                current.at += 1;
                cost += NAME_COST;
                if admits(name) {
                    cost = cost.saturating_add(current.expression.cost(name));
                    if current.expression.matches(name) {
                        current.matches.insert(name.to_owned());
                    }
                }
            }
            self.found.insert(current.pattern, current.matches);
        }
        false
    }

    /// Begins with the next expression that can be compiled.
    fn next(&mut self, cost: &mut u64) -> Option<UnderWay> {
        loop {
            let pattern = self.waiting.next()?;
            if !is_cached(&pattern) {
                *cost += COMPILATION_COST;
            }
            match whole(&pattern) {
                Ok(expression) => {
                    return Some(UnderWay { pattern, expression, at: 0, matches: BTreeSet::new() });
                }
                Err(_) => drop(self.found.insert(pattern, BTreeSet::new())),
            }
        }
    }

    /// The names that each expression matches, once there is no more to do. An expression that an
    /// earlier version accepted and this one does not matches nothing.
    pub fn found(self) -> BTreeMap<String, BTreeSet<String>> {
        self.found
    }
}

#[cfg(test)]
pub mod tests;
