//! Both scores side by side, as a table for people and as JSON for programs.

use std::fmt::Write;

use super::outcome::{Outcome, Outcomes};
use super::{Suite, kafka_only};

/// One suite's outcomes on both brokers.
pub struct Score {
    /// The suite.
    pub suite: &'static Suite,
    /// Outcomes of its tests against Levada.
    pub levada: Outcomes,
    /// Outcomes of its tests against Kafka.
    pub kafka: Outcomes,
}

fn count(outcomes: &Outcomes, wanted: Outcome) -> usize {
    outcomes.values().filter(|outcome| **outcome == wanted).count()
}

/// A table of Markdown, and below it the differences.
pub fn markdown(scores: &[Score]) -> String {
    let mut page = String::from(
        "| Suite | Tests | Levada: passed | failed | skipped | Kafka: passed | failed | skipped |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let all = [Outcome::Passed, Outcome::Failed, Outcome::Skipped];
    for Score { suite, levada, kafka } in scores {
        let row = [levada, kafka].map(|one| all.map(|outcome| count(one, outcome).to_string()).join(" | "));
        let _ = writeln!(page, "| {} | {} | {} |", suite.name, suite.source, row.join(" | "));
    }
    for Score { suite, levada, kafka } in scores {
        let lines = differences(levada, kafka);
        if !lines.is_empty() {
            let _ = writeln!(page, "\n{}:\n\n{}", suite.name, lines.join("\n"));
        }
    }
    page
}

fn differences(levada: &Outcomes, kafka: &Outcomes) -> Vec<String> {
    let bad = kafka_only(levada, kafka);
    let mut lines: Vec<String> = bad.iter().map(|test| format!("- `{test}` passes on Kafka only.")).collect();
    let passed = |one: &Outcomes, test: &str| one.get(test) == Some(&Outcome::Passed);
    let both = levada.keys().filter(|test| !passed(levada, test) && !passed(kafka, test));
    let failed = both.filter(|test| levada.get(*test) == Some(&Outcome::Failed));
    lines.extend(failed.map(|test| format!("- `{test}` passes on neither.")));
    let ours =
        levada.keys().filter(|test| passed(levada, test) && kafka.get(*test) == Some(&Outcome::Failed));
    lines.extend(ours.map(|test| format!("- `{test}` passes on Levada only.")));
    lines
}

/// Every test with what became of it.
pub fn json(scores: &[Score]) -> String {
    let tests = |outcomes: &Outcomes| -> serde_json::Value {
        let words = outcomes.iter().map(|(test, outcome)| (test.clone(), format!("{outcome:?}")));
        words.collect::<std::collections::BTreeMap<_, _>>().into_iter().collect()
    };
    let suites: serde_json::Map<String, serde_json::Value> = scores
        .iter()
        .map(|score| {
            let both = serde_json::json!({ "levada": tests(&score.levada), "kafka": tests(&score.kafka) });
            (score.suite.name.to_string(), both)
        })
        .collect();
    serde_json::Value::from(suites).to_string()
}
