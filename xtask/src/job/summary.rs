//! Summary of a run: the slowest jobs, the suites above their expected time, and the failures.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::Duration;

use super::verdict::Verdict;

/// Number of lines of the table of long jobs.
const SLOWEST: usize = 5;

/// A suite has outgrown its expected time if it takes this many times as long, in relation to all
/// suites of the run, so that a slow machine is no reason.
const OUTGROWN: f64 = 3.0;

/// Time by which it must exceed its share besides: short suites vary more.
const MARGIN: Duration = Duration::from_secs(30);

/// A job that has ended, or that was skipped.
pub(super) struct Record {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
    /// Processor time that the jobs used.
    pub(super) used: Duration,
    pub(super) expected: Option<Duration>,
    pub(super) failure: Option<String>,
    /// The first output, if that measurement failed and was repeated.
    pub(super) first: Option<PathBuf>,
    pub(super) again: String,
    /// The reason why it did not run.
    pub(super) left_out: Option<String>,
}

impl Record {
    /// A job that this machine cannot run.
    pub(super) fn left_out(name: String, reason: String, is_failure: bool) -> Self {
        let (took, used) = (Duration::ZERO, Duration::ZERO);
        let failure = is_failure.then(|| reason.clone());
        let verdict = Verdict::new("", !is_failure);
        let (again, left_out) = (String::new(), Some(reason));
        Self { name, verdict, took, used, expected: None, failure, first: None, again, left_out }
    }

    /// `black box: crash: FAILED, 1 passed, 1 failed, 25.4 s`.
    pub(super) fn line(&self) -> String {
        let word = if self.failure.is_none() { "ok" } else { "FAILED" };
        let Verdict { passed, failed, .. } = self.verdict;
        let passed = if passed > 0 { format!(", {passed} passed") } else { String::new() };
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let times = if self.first.is_some() { ", measured twice" } else { "" };
        let (took, used) = (self.took.as_secs_f64(), self.used.as_secs_f64());
        format!("{}: {word}{passed}{failed}{times}, {took:.1} s, processors {used:.1} s", self.name)
    }
}

/// Prints the summary of a run that took this time and left the processors idle for a share of it.
/// Fails if a job has failed or has outgrown its expected time.
pub(super) fn print(
    mut records: Vec<Record>,
    skipped: &[&str],
    took: Duration,
    idle: Option<f64>,
) -> Result<(), String> {
    records.sort_by_key(|record| Reverse(record.took));
    print_times(&records, took, idle);
    let outgrown = print_budget(&records);
    let mut failed = outgrown;
    let mut passed = 0;
    for record in &records {
        passed += record.verdict.passed;
        failed += record.verdict.failed;
        if let (None, Some(first)) = (&record.failure, &record.first) {
            println!("\n{}: only the second measurement held; the first: {}", record.name, first.display());
        }
    }
    for record in records.iter().filter(|record| record.failure.is_some()) {
        println!("\n{}", record.line());
        record.verdict.names.iter().for_each(|name| println!("    {name}"));
        println!("    again: {} {}", record.again, record.verdict.names.join(" "));
    }
    for record in &records {
        if let Some(reason) = &record.left_out {
            println!("\n{}: left out: {reason}", record.name);
        }
    }
    for name in skipped {
        println!("\n{name}: not run, because of a failure above");
    }
    println!("\n{passed} passed, {failed} failed");
    if failed == 0 { Ok(()) } else { Err(String::new()) }
}

fn print_times(records: &[Record], took: Duration, idle: Option<f64>) {
    println!("\nSeconds of the jobs that took longest, and the processor time of their processes:");
    let line = |took: Duration, used: Duration, name: &str| {
        println!("{:>8.1} s {:>8.1} s  {name}", took.as_secs_f64(), used.as_secs_f64());
    };
    let suites = records.iter().filter(|record| record.expected.is_some());
    let others = records.iter().filter(|record| record.expected.is_none());
    for record in others.take(SLOWEST).chain(suites.take(SLOWEST)) {
        line(record.took, record.used, &record.name);
    }
    line(took, records.iter().map(|record| record.used).sum(), &format!("all of {}", records.len()));
    if let Some(share) = idle {
        println!("The processors were idle for {:.0} % of the time.", share * 100.0);
    }
}

/// Prints expected and actual times of the suites. Returns the number of those that have outgrown
/// their expected time.
fn print_budget(records: &[Record]) -> u64 {
    let suites: Vec<(&Record, Duration)> =
        records.iter().filter_map(|record| Some((record, record.expected?))).collect();
    if suites.is_empty() {
        return 0;
    }
    let expected: Duration = suites.iter().map(|(_, expected)| *expected).sum();
    let took: Duration = suites.iter().map(|(record, _)| record.took).sum();
    let pace = took.as_secs_f64() / expected.as_secs_f64();
    println!(
        "\nSeconds of the suites: expected, taken, of processors (this machine took {pace:.2} times the sum):"
    );
    let mut count = 0;
    for (record, expected) in suites {
        let is_outgrown = record.first.is_none() && is_outgrown(expected, record.took, pace);
        count += u64::from(is_outgrown);
        let note = if is_outgrown {
            ": OUTGROWN: split it, move it to the soak, or expect more in its head"
        } else {
            ""
        };
        let (took, used) = (record.took.as_secs_f64(), record.used.as_secs_f64());
        println!("{:>6} {took:>7.1} {used:>7.1}  {}{note}", expected.as_secs(), record.name);
    }
    count
}

/// True if a suite takes far longer than expected on a machine that takes `pace` times the expected
/// time for all suites.
fn is_outgrown(expected: Duration, took: Duration, pace: f64) -> bool {
    let allowed = expected.mul_f64(pace.max(1.0));
    took > allowed.mul_f64(OUTGROWN) && took > allowed + MARGIN
}

#[cfg(test)]
mod tests;
