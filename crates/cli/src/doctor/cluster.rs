//! `levada doctor --cluster`: conditions that stop or hurt the replacement of a cluster's brokers
//! by Levada on their directories, and the progress of a replacement.

mod checks;
mod facts;
mod file;
mod progress;
mod tiers;

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use self::facts::Facts;
use self::file::OfFile;
use self::tiers::Tiers;
use crate::cluster::BrokerArgs;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format};

pub(super) use self::progress::run as watch;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// A replacement works, with an effect that the operator should consider.
    Warning,
    /// A replacement does not work, or loses availability.
    Blocked,
}

/// A check, with the next step if it did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    next: Option<String>,
}

/// All checks.
#[derive(Debug, Serialize)]
struct Report {
    cluster: String,
    replaceable: bool,
    checks: Vec<Check>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, found: found.into(), next: None }
    }

    fn warning(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warning, found: found.into(), next: Some(next.into()) }
    }

    fn blocked(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Blocked, found: found.into(), next: Some(next.into()) }
    }
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Blocked => "blocked",
        }
    }
}

/// Checks the cluster and, if it is named, the configuration of the broker to be replaced; fails if
/// a check is blocked.
pub(super) fn run(
    brokers: &BrokerArgs,
    (config, format): (Option<&Path>, Format),
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut cluster = brokers.connect()?;
    let facts = Facts::ask(&mut cluster)?;
    let none = OfFile { node_id: None, tiers: Tiers::Unknown, checks: Vec::new() };
    let of_file = config.map_or(none, |path| file::checks(path, &facts));
    let mut checks = checks::all(&facts, of_file.node_id, &of_file.tiers);
    checks.extend(of_file.checks);
    let replaceable = checks.iter().all(|check| check.verdict != Verdict::Blocked);
    let report = Report { cluster: facts.cluster_id, replaceable, checks };
    let printed = match format {
        Format::Json => output::json(out, &report),
        Format::Table => print(out, &report),
    };
    let printed = printed.and_then(|()| Ok(out.flush()?));
    // A closed pipe does not hide a blocked check.
    if replaceable { printed } else { Err(Failure::Told) }
}

fn print(out: &mut dyn Write, report: &Report) -> Result<(), Failure> {
    writeln!(out, "Cluster {}\n", report.cluster)?;
    let row =
        |check: &Check| vec![check.name.to_owned(), check.verdict.word().to_owned(), check.found.clone()];
    output::table(out, &["CHECK", "RESULT", "FOUND"], report.checks.iter().map(row).collect())?;
    let steps: Vec<_> =
        report.checks.iter().filter_map(|check| Some((check.name, check.next.as_ref()?))).collect();
    if !steps.is_empty() {
        writeln!(out, "\nNext steps")?;
    }
    for (name, next) in steps {
        writeln!(out, "  {name}: {next}")?;
    }
    let conclusion = if report.replaceable {
        "Brokers of this cluster can be replaced one by one."
    } else {
        "Resolve the blocked checks before you replace a broker."
    };
    writeln!(out, "\n{conclusion}")?;
    Ok(())
}

#[cfg(test)]
mod tests;
