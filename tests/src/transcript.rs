//! Transcripts: typed commands, and the answers of Kafka's tools. A transcript is replayed against
//! the broker under test, which must give the same answers.
//!
//! A line `$ COMMAND` runs once; `? COMMAND` is repeated until the answer is the expected one,
//! because a real Kafka broker applies some changes after its answer. The answer follows, with a
//! line `=== CODE` if the exit code is not 0. The text before the first command explains the
//! transcript.
//!
//! `LEVADA_BLESS=1` records the broker's answers instead of comparing them. Record the answers of a
//! real Kafka only, except where a transcript names an exception.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::tool::Conversation;
use crate::{Node, Tool, paths};

const LIMIT: Duration = Duration::from_secs(90);
/// Time that an expected answer is awaited.
const PATIENCE: Duration = Duration::from_secs(20);

/// Replays `tests/transcripts/NAME.txt` with Kafka's tools.
pub fn replay(node: &Node, name: &str) {
    let mut tools = Tool::own_java("Tools");
    tools.args([&node.bootstrap(), &node.scratch().display().to_string()]);
    let mut tools = tools.spawn();
    replay_by(name, &mut |command| {
        // The tool reads the settings that it alters.
        if command.starts_with("ConfigCommand --alter") {
            node.await_metadata();
        }
        ask(&mut tools, command)
    });
    tools.finish(LIMIT);
}

/// Replays `tests/transcripts/NAME.txt` with a shell that finds `levada` and uses this broker.
/// `variables` are names with values that change from run to run: the shell has them, and answers
/// contain `$NAME` in their place.
pub fn replay_shell(node: &Node, name: &str, variables: &[(&str, String)]) {
    let programs = node.scratch().join("bin");
    fs::create_dir_all(&programs).expect("room");
    std::os::unix::fs::symlink(paths::binary(), programs.join("levada")).expect("a new link");
    let path = std::env::var("PATH").unwrap_or_default();
    replay_by(name, &mut |command| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(node.scratch()).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", programs.display())).env("LEVADA_BROKERS", node.bootstrap());
        shell.envs(variables.iter().map(|(name, value)| (name, value)));
        let said = shell.output().expect("sh");
        let mut text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        for (name, value) in variables {
            text = text.replace(value.as_str(), &format!("${name}"));
        }
        match said.status.code() {
            Some(0) => text,
            code => format!("{text}=== {}\n", code.unwrap_or(-1)),
        }
    });
}

fn replay_by(name: &str, ask: &mut dyn FnMut(&str) -> String) {
    let path = paths::transcript(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (head, steps) = parse(&text);
    let bless = std::env::var_os("LEVADA_BLESS").is_some();
    let (mut written, mut complaints) = (head.to_string(), Vec::new());
    for step in &steps {
        let answer = step.answer(ask, bless);
        if answer != step.expected {
            complaints.push(format!("{}\nexpected:\n{}answered:\n{answer}", step.line, step.expected));
        }
        written.push_str(&format!("\n{}\n{answer}", step.line));
    }
    if bless {
        write(&path, &written);
        return;
    }
    assert!(complaints.is_empty(), "{}: {} differ\n\n{}", name, complaints.len(), complaints.join("\n"));
}

/// A command and its expected output.
struct Step<'a> {
    line: &'a str,
    expected: String,
}

impl Step<'_> {
    fn answer(&self, ask: &mut dyn FnMut(&str) -> String, bless: bool) -> String {
        let (mark, command) = self.line.split_at(2);
        let start = Instant::now();
        loop {
            let answer = ask(command);
            let patience = if bless { PATIENCE / 10 } else { PATIENCE };
            if mark == "$ " || answer == self.expected || start.elapsed() > patience {
                return answer;
            }
        }
    }
}

fn ask(tools: &mut Conversation, command: &str) -> String {
    tools.say(command);
    let mut answer = String::new();
    loop {
        let line = tools.line(LIMIT);
        match line.strip_prefix("=== ") {
            Some("0") => return answer,
            Some(_) => return answer + &line + "\n",
            None => answer.push_str(&(line + "\n")),
        }
    }
}

/// The explanation and the steps.
fn parse(text: &str) -> (&str, Vec<Step<'_>>) {
    let is_command = |line: &str| line.starts_with("$ ") || line.starts_with("? ");
    let first = text.find("\n\n$ ").expect("an explanation, an empty line and commands") + 1;
    let mut steps: Vec<Step> = Vec::new();
    for line in text[first + 1..].lines() {
        match steps.last_mut() {
            Some(step) if !is_command(line) => step.expected.push_str(&format!("{line}\n")),
            _ => steps.push(Step { line, expected: String::new() }),
        }
    }
    if let Some((_, before)) = steps.split_last_mut() {
        // The empty line before the next command does not belong to the output.
        for step in before {
            step.expected.pop();
        }
    }
    (&text[..first], steps)
}

fn write(path: &PathBuf, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_transcript_is_an_explanation_and_steps() {
        let text = "Why.\n\n$ A b\nline\n\nlast\n\n$ B\n\n? C d\nthere\n=== 1\n";
        let (head, steps) = parse(text);
        assert_eq!(head, "Why.\n");
        let steps: Vec<_> = steps.iter().map(|step| (step.line, step.expected.as_str())).collect();
        assert_eq!(steps, [("$ A b", "line\n\nlast\n"), ("$ B", ""), ("? C d", "there\n=== 1\n")]);
    }
}
