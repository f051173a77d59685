//! Runs the foreign suites against Levada and against a real Kafka and prints both scores:
//! `suites [NAME]...`. Fails if a test passes on Kafka only and is not in the list of known
//! differences, or if tests could not be built. `cargo xtask test --suites` installs the required
//! programs.

use std::process::{Command, ExitCode, Stdio};

use levada_tests::node::Kind;
use levada_tests::paths;
use levada_tests::suite::outcome::{NOT_BUILT, Outcomes};
use levada_tests::suite::report::{Score, json, markdown};
use levada_tests::suite::{SUITES, Suite, kafka_only, word};

/// The argument that has this program run one suite against one broker.
const ONE: &str = "--one";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [one, name, broker] = &arguments[..]
        && one == ONE
    {
        let kind = [Kind::Levada, Kind::Kafka].into_iter().find(|kind| word(*kind) == broker);
        find(name).run(kind.expect("levada or kafka"));
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&'static Suite> = if arguments.is_empty() {
        SUITES.iter().collect()
    } else {
        arguments.iter().map(|name| find(name)).collect()
    };
    let scores: Vec<Score> = chosen.into_iter().map(score).collect();
    let (page, results) = (markdown(&scores), paths::suite_results());
    std::fs::write(results.join("scores.md"), &page).expect("room for the results");
    std::fs::write(results.join("scores.json"), json(&scores)).expect("room for the results");
    println!("{page}\nEach test, and what the suites said: {}", results.display());
    let differ = |score: &Score| !kafka_only(&score.levada, &score.kafka).is_empty();
    let is_not_built =
        |score: &Score| score.levada.keys().chain(score.kafka.keys()).any(|test| test.ends_with(NOT_BUILT));
    let fails = scores.iter().any(|score| differ(score) || is_not_built(score));
    if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn find(name: &str) -> &'static Suite {
    let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    let found = SUITES.iter().find(|suite| suite.name == name);
    found.unwrap_or_else(|| panic!("no suite {name}: {}", names.join(", ")))
}

fn score(suite: &'static Suite) -> Score {
    Score { suite, levada: outcomes(suite, Kind::Levada), kafka: outcomes(suite, Kind::Kafka) }
}

/// Runs the suite in a separate process, with a separate network if necessary.
fn outcomes(suite: &Suite, kind: Kind) -> Outcomes {
    eprintln!("==> {} on {}: {}", suite.name, word(kind), suite.log(kind).display());
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = if suite.needs_own_network() {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", r#"ip link set lo up && exec "$0" "$@""#]).arg(&program);
        command
    } else {
        Command::new(&program)
    };
    command.args([ONE, suite.name, word(kind)]).stdin(Stdio::null());
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{} on {}: {status}", suite.name, word(kind));
    suite.outcomes(kind)
}
