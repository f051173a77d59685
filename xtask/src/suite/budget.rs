//! The time that the suites of `cargo xtask test --all` may take: `tests/budget.toml` has a row for
//! each share, the heads of the suites name their share and their expected seconds.

use std::collections::BTreeMap;
use std::path::Path;

use super::catalogue::{Suite, suites};

/// A share, with the seconds that its suites announce and those that they may take.
#[derive(Debug, PartialEq)]
pub(crate) struct Share {
    pub(crate) name: String,
    pub(crate) used: f64,
    pub(crate) limit: u64,
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "budget: {}: {:.0} of {} s", self.name, self.used, self.limit)
    }
}

/// Checks every share of the budget. An error names each share that its suites exceed, or that has
/// no row.
pub(crate) fn check(root: &Path) -> Result<Vec<Share>, String> {
    let path = root.join("tests/budget.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let limits = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    shares(&limits, &suites(root)?)
}

fn shares(limits: &BTreeMap<String, u64>, suites: &[Suite]) -> Result<Vec<Share>, String> {
    let mut used: BTreeMap<&str, f64> = limits.keys().map(|name| (name.as_str(), 0.0)).collect();
    for suite in suites.iter().filter(|suite| suite.belongs_to(true)) {
        let share = used.get_mut(suite.head.share.as_str());
        *share.ok_or_else(|| {
            format!("{}: tests/budget.toml has no share `{}`", suite.name, suite.head.share)
        })? += suite.cost();
    }
    let shares: Vec<Share> = used
        .into_iter()
        .map(|(name, used)| Share { name: name.to_owned(), used, limit: limits[name] })
        .collect();
    let exceeded = shares.iter().filter(|share| share.used > share.limit as f64);
    let exceeded: Vec<String> = exceeded
        .map(|share| {
            format!(
                "share `{}` has {} s, and its suites announce {:.0} s",
                share.name, share.limit, share.used
            )
        })
        .collect();
    if exceeded.is_empty() {
        Ok(shares)
    } else {
        Err(format!("tests/budget.toml: {}: split a suite, or move it to the soak", exceeded.join("; ")))
    }
}

#[cfg(test)]
mod tests;
