//! `levada lab` under test: an experiment on processes side by side, as small as it gets.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::Tool;

/// Runs experiments of `lab WHAT` in a directory; their summaries.
pub fn run(scratch: &Path, what: &str, arguments: &[&str]) -> Vec<Value> {
    let record = scratch.join("record.jsonl").display().to_string();
    let mut tool = Tool::levada();
    tool.args(["lab", what, "--tiny", "--output", "json", "--record", &record]);
    tool.arg("--dir").arg(scratch.display().to_string());
    for argument in arguments {
        tool.arg(argument);
    }
    let said = tool.run();
    let summaries: Value =
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {}", said.stdout));
    summaries.as_array().expect("a list of experiments").clone()
}

/// Systems of `systems` with figures in a summary, collected from all of its rows.
pub fn measured(summary: &Value, systems: &[&str]) -> BTreeSet<String> {
    let name = summary["name"].as_str().expect("a name");
    let mut measured = BTreeSet::new();
    for group in summary["groups"].as_array().expect("groups") {
        for row in group["rows"].as_array().expect("rows") {
            assert_eq!(row["sound"], true, "{name}: {row}\n{}", summary["notes"]);
            let first = summary["metrics"][0]["name"].as_str().expect("a metric");
            assert!(
                row["metrics"][first]["median"].as_f64().is_some_and(|value| value >= 0.0),
                "{name}: {row}"
            );
            for system in [&group["name"], &row["case"]] {
                let system = system.as_str().expect("a name");
                if systems.contains(&system) {
                    measured.insert(system.to_owned());
                }
            }
        }
    }
    measured
}
