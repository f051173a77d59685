//! The outcome of a job, read from its exit status and from the lines of Rust's test harness.

/// Counts of tests, and the names of those that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) names: Vec<String>,
}

impl Verdict {
    /// Reads a job's output. A job that failed without a failed test counts as one failure.
    pub(super) fn new(output: &str, succeeded: bool) -> Self {
        let mut verdict = Self { names: failures(output), ..Self::default() };
        for (passed, failed) in output.lines().filter_map(outcome) {
            verdict.passed += passed;
            verdict.failed += failed;
        }
        if !succeeded {
            verdict.failed = verdict.failed.max(1);
        }
        verdict
    }
}

/// `test result: ok. 12 passed; 0 failed; …` → (12, 0).
fn outcome(line: &str) -> Option<(u64, u64)> {
    let rest = line.split_once("test result: ")?.1.split_once(". ")?.1;
    let mut parts = rest.split("; ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

/// The names that the harness lists, indented by four spaces, between `failures:` and the line of
/// counts. Another list under the same heading has the tests' output, not indented.
fn failures(output: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_listed = false;
    for line in output.lines() {
        match line.strip_prefix("    ") {
            _ if line == "failures:" => is_listed = true,
            Some(name) if is_listed && !name.contains(' ') => names.push(name.to_owned()),
            _ if !line.is_empty() => is_listed = false,
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests;
