//! Execution of a script.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command as Program, ExitStatus};
use std::rc::Rc;

use super::builtins::Builtin;
use super::lexer::Kind;
use super::parser::{Chain, Command, Redirect, Script, Simple, parse};
use crate::failure::Failure;

/// Error of the kernel for a file that is neither a program nor names one.
const NO_FORMAT: i32 = 8;

/// Standard streams of a command; without a file, the shell's own.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pub(super) input: Option<File>,
    pub(super) output: Option<OwnedFd>,
    pub(super) errors: Option<OwnedFd>,
}

/// End of a script before its last command.
#[derive(Debug)]
pub(super) enum Stop {
    /// `exit`, or a failure after `set -e`.
    Exit(i32),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// State of a shell.
#[derive(Clone, Debug, Default)]
pub(super) struct Shell {
    /// Values of variables; true if programs get them.
    pub(super) variables: BTreeMap<String, (String, bool)>,
    arguments: Vec<String>,
    pub(super) status: i32,
    /// True after `set -e`.
    pub(super) ends_at_failure: bool,
    /// True while the condition of a command runs: its failure does not end the script.
    is_condition: bool,
    /// Standard output of commands between `$(` and `)`.
    captured: Option<Rc<OwnedFd>>,
}

impl Shell {
    pub(super) fn of_environment(ends_at_failure: bool) -> Self {
        let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, (value.into_string().ok()?, true)))
        };
        Self {
            variables: std::env::vars_os().filter_map(texts).collect(),
            ends_at_failure,
            ..Self::default()
        }
    }

    pub(super) fn set_arguments(&mut self, arguments: Vec<String>) {
        self.arguments = arguments;
    }

    /// The value of a variable, of an argument (`1`), of all of them (`@`) or of the status (`?`).
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        match name {
            "?" => Some(self.status.to_string()),
            "@" => Some(self.arguments.join(" ")),
            "0" => Some("sh".to_owned()),
            _ => match name.parse::<usize>() {
                Ok(number) => self.arguments.get(number.checked_sub(1)?).cloned(),
                Err(_) => self.variables.get(name).map(|(value, _)| value.clone()),
            },
        }
    }

    pub(super) fn set(&mut self, name: &str, value: String, exported: bool) {
        let was_exported = self.variables.get(name).is_some_and(|(_, exported)| *exported);
        self.variables.insert(name.to_owned(), (value, exported || was_exported));
    }

    /// Runs a script whose last command may replace the shell, so that the broker gets the signals
    /// of the engine. Returns the exit code.
    pub(super) fn run_last(mut self, script: &Script) -> Result<i32, Failure> {
        match self.script(script, true) {
            Ok(()) => Ok(self.status),
            Err(Stop::Exit(code)) => Ok(code),
            Err(Stop::Failed(failure)) => Err(failure),
        }
    }

    /// Runs a script in this shell, as `source` does.
    pub(super) fn source(&mut self, path: &str) -> Result<(), Stop> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::not_started(path, &error))?;
        let script = parse(&text)?;
        self.script(&script, false)
    }

    /// Standard output of a script that runs in a copy of this shell.
    pub(super) fn output(&mut self, script: &Script) -> Result<String, Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot read the output of a command: {error}"));
        let (mut reader, writer) = io::pipe().map_err(failed)?;
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        let mut inner = Self { captured: Some(Rc::new(writer.into())), ..self.clone() };
        let ended = inner.script(script, false);
        self.status = match ended {
            Ok(()) => inner.status,
            Err(Stop::Exit(code)) => code,
            Err(Stop::Failed(failure)) => return Err(failure),
        };
        drop(inner);
        let text = reading.join().map_err(|_| Failure::new("cannot read the output of a command"))?;
        text.map_err(failed)
    }

    fn script(&mut self, script: &Script, is_last: bool) -> Result<(), Stop> {
        for (index, chain) in script.iter().enumerate() {
            let is_last = is_last && index + 1 == script.len() && chain.rest.is_empty();
            self.chain(chain, is_last)?;
        }
        Ok(())
    }

    fn chain(&mut self, chain: &Chain, is_last: bool) -> Result<(), Stop> {
        let outer = self.is_condition;
        self.is_condition |= !chain.rest.is_empty();
        self.command(&chain.first, is_last)?;
        for (index, (is_and, command)) in chain.rest.iter().enumerate() {
            if *is_and == (self.status == 0) {
                self.is_condition = outer || index + 1 < chain.rest.len();
                self.command(command, false)?;
            }
        }
        self.is_condition = outer;
        Ok(())
    }

    fn command(&mut self, command: &Command, is_last: bool) -> Result<(), Stop> {
        match command {
            Command::Simple(simple) => return self.simple(simple, is_last),
            Command::Not(inner) => {
                self.condition(|shell| shell.command(inner, false))?;
                self.status = i32::from(self.status == 0);
            }
            Command::Loop(is_while, condition, body) => {
                let mut status = 0;
                while {
                    self.condition(|shell| shell.script(condition, false))?;
                    (self.status == 0) == *is_while
                } {
                    self.script(body, false)?;
                    status = self.status;
                }
                self.status = status;
            }
            Command::If(condition, then, otherwise) => {
                self.condition(|shell| shell.script(condition, false))?;
                let branch = if self.status == 0 { then } else { otherwise };
                self.status = 0;
                self.script(branch, is_last)?;
            }
            Command::For(name, words, body) => {
                for text in self.texts(words)? {
                    self.set(name, text, false);
                    self.script(body, false)?;
                }
            }
        }
        Ok(())
    }

    fn condition(&mut self, run: impl FnOnce(&mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        let outer = std::mem::replace(&mut self.is_condition, true);
        run(self)?;
        self.is_condition = outer;
        Ok(())
    }

    fn simple(&mut self, simple: &Simple, is_last: bool) -> Result<(), Stop> {
        let mut streams = Streams::default();
        let texts = self.texts(&simple.words)?;
        if let Some(captured) = &self.captured {
            streams.output = Some(captured.try_clone().map_err(failed_streams)?);
        }
        for redirect in &simple.redirects {
            self.redirect(redirect, &mut streams)?;
        }
        let mut own = Vec::new();
        for (name, value) in &simple.assignments {
            let value = self.text(value)?;
            own.push((name.clone(), value));
        }
        let Some((name, words)) = texts.split_first() else {
            for (name, value) in own {
                self.set(&name, value, false);
            }
            self.status = 0;
            return Ok(());
        };
        match Builtin::of(name) {
            Some(Builtin::Exec) => {
                let Some((program, words)) = words.split_first() else { return Ok(()) };
                let is_own = self.captured.is_none();
                self.external((program, words), own, (streams, is_own))?;
                return Err(Stop::Exit(self.status));
            }
            Some(builtin) => {
                let status = self.builtin(builtin, words, &streams);
                self.status = status.map_err(|stop| at_line(stop, simple.line))?;
            }
            None => self.external((name, words), own, (streams, is_last))?,
        }
        if self.status != 0 && self.ends_at_failure && !self.is_condition {
            return Err(Stop::Exit(self.status));
        }
        Ok(())
    }

    fn redirect(&mut self, redirect: &Redirect, streams: &mut Streams) -> Result<(), Failure> {
        match redirect {
            Redirect::Copy { descriptor, of } => {
                let copied = match of {
                    1 => streams.output.as_ref().map(OwnedFd::try_clone),
                    _ => streams.errors.as_ref().map(OwnedFd::try_clone),
                };
                let own = || match of {
                    1 => io::stdout().as_fd().try_clone_to_owned(),
                    _ => io::stderr().as_fd().try_clone_to_owned(),
                };
                let copy = copied.unwrap_or_else(own).map_err(failed_streams)?;
                *(if *descriptor == 2 { &mut streams.errors } else { &mut streams.output }) = Some(copy);
            }
            Redirect::File { descriptor, kind, path } => {
                let path = self.text(path)?;
                let opened = match kind {
                    Kind::Read => File::open(&path),
                    Kind::Write => File::create(&path),
                    Kind::Append => File::options().append(true).create(true).open(&path),
                };
                let file = opened.map_err(|error| Failure::new(format!("cannot open {path}: {error}")))?;
                match descriptor {
                    0 => streams.input = Some(file),
                    2 => streams.errors = Some(file.into()),
                    _ => streams.output = Some(file.into()),
                }
            }
        }
        Ok(())
    }

    /// Runs a program, or becomes it.
    fn external(
        &mut self,
        (name, words): (&str, &[String]),
        own: Vec<(String, String)>,
        (streams, is_last): (Streams, bool),
    ) -> Result<(), Failure> {
        let messages = streams.errors.as_ref().and_then(|errors| errors.try_clone().ok());
        let exported = self.variables.iter().filter(|(_, (_, exported))| *exported);
        let mut program = Program::new(name);
        program.args(words).env_clear();
        program.envs(exported.map(|(name, (value, _))| (name, value))).envs(own);
        if let Some(input) = streams.input {
            program.stdin(input);
        }
        if let Some(output) = streams.output {
            program.stdout(output);
        }
        if let Some(errors) = streams.errors {
            program.stderr(errors);
        }
        let failed = if is_last {
            program.exec()
        } else {
            match program.status() {
                Ok(status) => {
                    self.status = code(status);
                    return Ok(());
                }
                Err(error) => error,
            }
        };
        if failed.raw_os_error() == Some(NO_FORMAT) {
            // A script without `#!`.
            let mut inner = self.clone();
            self.status = match inner.source(name) {
                Ok(()) => inner.status,
                Err(Stop::Exit(code)) => code,
                Err(Stop::Failed(failure)) => return Err(failure),
            };
            return Ok(());
        }
        let failure = Failure::not_started(name, &failed);
        super::builtins::tell(messages, &format!("sh: {failure}\n"));
        self.status = failure.code();
        Ok(())
    }
}

fn failed_streams(error: io::Error) -> Failure {
    Failure::new(format!("cannot copy a stream: {error}"))
}

fn at_line(stop: Stop, line: usize) -> Stop {
    match stop {
        Stop::Failed(failure) => Stop::Failed(failure.with_line(line)),
        exit @ Stop::Exit(_) => exit,
    }
}

/// Exit code of a program; of one that a signal ended, 128 and the number of the signal.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
