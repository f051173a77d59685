//! The outcome of each test, read from the output of the test runners.

use std::collections::BTreeMap;

/// Outcome of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The test passed.
    Passed,
    /// The test failed, or its preparation did.
    Failed,
    /// The test did not run.
    Skipped,
}

/// Each test by its name.
pub type Outcomes = BTreeMap<String, Outcome>;

/// Ends the name of a package whose tests could not be built.
pub const NOT_BUILT: &str = " (not built)";

/// Reads `go test -json`. Of a test with parts only the parts count. A package that could not be
/// built is a failed test.
pub fn go(output: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for event in output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        if let (Some(package), true) = (event["Package"].as_str(), event["FailedBuild"].is_string()) {
            outcomes.insert(format!("{package}{NOT_BUILT}"), Outcome::Failed);
        }
        let (Some(test), Some(action)) = (event["Test"].as_str(), event["Action"].as_str()) else { continue };
        let outcome = match action {
            "pass" => Outcome::Passed,
            "fail" => Outcome::Failed,
            "skip" => Outcome::Skipped,
            _ => continue,
        };
        outcomes.insert(test.to_string(), outcome);
    }
    let parts = outcomes.keys().filter_map(|test| test.rsplit_once('/'));
    let whole: Vec<String> = parts.map(|(whole, _)| whole.to_string()).collect();
    for test in whole {
        // A whole that failed while its parts passed has a separate failure.
        let part = format!("{test}/");
        let parts_failed =
            outcomes.iter().any(|(name, outcome)| name.starts_with(&part) && *outcome == Outcome::Failed);
        if parts_failed || outcomes.get(&test) != Some(&Outcome::Failed) {
            outcomes.remove(&test);
        }
    }
    outcomes
}

/// Reads the summary that pytest prints with `-rA`. Skipped tests have no name there: the position
/// identifies the test.
pub fn pytest(output: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for line in output.lines() {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        let outcome = match word {
            "PASSED" => Outcome::Passed,
            "FAILED" | "ERROR" => Outcome::Failed,
            "SKIPPED" => Outcome::Skipped,
            _ => continue,
        };
        let test = rest.split(" - ").next().unwrap_or(rest);
        if test.contains("test_") {
            outcomes.insert(test.to_string(), outcome);
        }
    }
    outcomes
}
