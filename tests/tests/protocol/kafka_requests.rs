//! Kafka's own tests of requests, clients and commands, unchanged, with processes of Levada in the
//! place of Kafka's brokers (`tests/kafka-requests`). `classes.txt` there lists the classes with
//! the number of tests that pass, and `exceptions.txt` each test that does not pass, and why. A
//! test that fails and is not listed is an error, and so is a listed one that passes.
//!
//! `LEVADA_BLESS=1` records the outcomes; a test that fails then still needs a reason.
//!
//! Suite: soak; 6600 s; needs java, kafka-requests
//! Soak: scale 1

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use levada_tests::paths;

/// The word in place of a reason that a person has to write.
const UNEXPLAINED: &str = "unexplained:";

/// Outcome of a test as the runner writes it.
struct Outcome {
    word: String,
    test: String,
    error: String,
}

/// A test that does not pass.
struct Exception {
    word: String,
    reason: String,
}

/// The files that list classes and exceptions.
struct Tables {
    folder: PathBuf,
    /// Sections of `classes.txt` in order: name, and classes with the number of passed tests.
    sections: Vec<(String, Vec<(String, usize)>)>,
    /// Expected failures by test name.
    exceptions: BTreeMap<String, Exception>,
}

impl Tables {
    fn read() -> Self {
        let folder = paths::repository().join("tests/kafka-requests");
        let mut sections: Vec<(String, Vec<(String, usize)>)> = Vec::new();
        for line in lines(&folder.join("classes.txt")) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                sections.push((name.to_owned(), Vec::new()));
                continue;
            }
            let (passed, class) = line.split_once(' ').expect("a number and a class");
            let (_, classes) = sections.last_mut().expect("a section before the classes");
            classes.push((class.to_owned(), passed.parse().expect("a number")));
        }
        let exceptions = lines(&folder.join("exceptions.txt")).into_iter().map(|line| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let mut next = || words.next().expect("an outcome, a test and a reason");
            let (word, test, reason) = (next(), next(), next());
            (test, Exception { word, reason })
        });
        Self { exceptions: exceptions.collect(), sections, folder }
    }

    /// Compares the outcomes of a class with the tables; returns the differences.
    fn compare(&self, class: &str, passed: usize, outcomes: &[Outcome]) -> Vec<String> {
        let mut problems = Vec::new();
        for Outcome { word, test, error } in outcomes {
            match self.exceptions.get(test) {
                Some(known) if known.word == *word => {}
                Some(_) => {
                    problems.push(format!("{test} has {word}, and exceptions.txt says otherwise: {error}"))
                }
                None if word == "passed" => {}
                None => problems.push(format!("{test} has {word}: {error}")),
            }
        }
        let ran = |test: &str| outcomes.iter().any(|outcome| outcome.test == test);
        let listed = self.exceptions.keys().filter(|test| is_of(test, class) && !ran(test));
        problems.extend(listed.map(|test| format!("{test} did not run")));
        let now = outcomes.iter().filter(|outcome| outcome.word == "passed").count();
        if now != passed {
            problems.push(format!("{now} tests of {class} pass, and classes.txt says {passed}"));
        }
        problems
    }

    /// Takes the outcomes of a class in place of the former ones; keeps the reasons.
    fn record(&mut self, class: &str, outcomes: Vec<Outcome>) {
        let now = outcomes.iter().filter(|outcome| outcome.word == "passed").count();
        let classes = self.sections.iter_mut().flat_map(|(_, classes)| classes);
        classes.filter(|(name, _)| name == class).for_each(|(_, passed)| *passed = now);
        let all = std::mem::take(&mut self.exceptions);
        let (mut former, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(test, _)| is_of(test, class));
        self.exceptions = others;
        for Outcome { word, test, error } in outcomes {
            if word == "passed" {
                continue;
            }
            let known = former.remove(&test).filter(|known| known.word == word);
            let new = || match word.as_str() {
                "failed" => format!("{UNEXPLAINED} {error}"),
                _ => error.clone(),
            };
            let reason = known.map_or_else(new, |known| known.reason);
            self.exceptions.insert(test, Exception { word, reason });
        }
    }

    fn write(&self) {
        let mut classes = head(&self.folder.join("classes.txt"));
        for (name, members) in &self.sections {
            writeln!(classes, "[{name}]").expect("a string");
            for (class, passed) in members {
                writeln!(classes, "{passed} {class}").expect("a string");
            }
        }
        let mut exceptions = head(&self.folder.join("exceptions.txt"));
        for (test, Exception { word, reason }) in &self.exceptions {
            writeln!(exceptions, "{word} {test} {reason}").expect("a string");
        }
        for (name, text) in [("classes.txt", classes), ("exceptions.txt", exceptions)] {
            let path = self.folder.join(name);
            fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// True if the name of the test begins with that of the class.
fn is_of(test: &str, class: &str) -> bool {
    test.strip_prefix(class).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Lines that are neither empty nor comments.
fn lines(path: &Path) -> Vec<String> {
    let text = read(path);
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The comment at the beginning of a file.
fn head(path: &Path) -> String {
    read(path).lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Runs the tests of a class in a JVM. Blocks until the last one has ended; each has three minutes.
fn run(class: &str, folder: &Path) -> Vec<Outcome> {
    let results = paths::kafka_requests_results();
    let scratch = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir_all(&results).unwrap_or_else(|error| panic!("{}: {error}", results.display()));
    let (table, log) = (results.join(format!("{class}.tsv")), results.join(format!("{class}.log")));
    let output = fs::File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    let mut java = Command::new("java");
    java.arg("-Xmx768m").args(paths::JVM_FLAGS);
    for (key, path) in [
        ("levada.bin", paths::binary()),
        ("levada.scratch", scratch.path().join("brokers")),
        ("java.io.tmpdir", scratch.path().to_owned()),
        ("log4j2.configurationFile", folder.join("log.properties")),
    ] {
        java.arg(format!("-D{key}={}", path.display()));
    }
    java.arg("-cp").arg(paths::kafka_requests_class_path()).arg("levada.requests.Run").arg(&table).arg(class);
    // Some tests write into the current directory.
    java.current_dir(scratch.path());
    java.stdin(Stdio::null()).stderr(output.try_clone().expect("a descriptor")).stdout(output);
    let status = java.status().unwrap_or_else(|error| panic!("java: {error}"));
    assert!(status.success(), "the tests of {class} ended with {status}: {}", log.display());
    let outcome = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_else(|| panic!("{}: {line}", table.display()));
        let (word, test, _seconds, error) = (next(), next(), next(), next());
        Outcome { word, test, error }
    };
    read(&table).lines().map(outcome).collect()
}

/// Runs the classes of a section.
fn section(name: &str) {
    let mut tables = Tables::read();
    let found = tables.sections.iter().find(|(section, _)| section == name);
    let classes = found.unwrap_or_else(|| panic!("classes.txt has no section {name}")).1.clone();
    let blesses = std::env::var_os("LEVADA_BLESS").is_some_and(|value| value == "1");
    let mut problems = Vec::new();
    for (class, passed) in classes {
        let outcomes = run(&class, &tables.folder);
        if blesses {
            tables.record(&class, outcomes);
        } else {
            problems.extend(tables.compare(&class, passed, &outcomes));
        }
    }
    if blesses {
        tables.write();
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn kafkas_requests_tests_have_known_outcomes() {
    section("requests");
}

#[test]
fn kafkas_administration_tests_have_known_outcomes() {
    section("administration");
}

#[test]
fn kafkas_clients_tests_have_known_outcomes() {
    section("clients");
}

#[test]
fn kafkas_security_tests_have_known_outcomes() {
    section("security");
}

#[test]
fn kafkas_commands_tests_have_known_outcomes() {
    section("commands");
}

#[test]
fn kafkas_servers_tests_have_known_outcomes() {
    section("servers");
}

#[test]
fn kafkas_streams_tests_have_known_outcomes() {
    section("streams");
}

#[test]
fn every_failure_has_a_reason() {
    let tables = Tables::read();
    let without = tables.exceptions.iter().filter(|(_, known)| known.reason.starts_with(UNEXPLAINED));
    let names: Vec<&String> = without.map(|(test, _)| test).collect();
    assert!(names.is_empty(), "exceptions.txt has no reason for {names:?}");
}
