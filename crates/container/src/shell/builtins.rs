//! Commands that the shell runs itself. The image contains only Levada's programs.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::run::{Shell, Stop, Streams};
use crate::failure::Failure;

/// Commands of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Chmod,
    Echo,
    Exec,
    Exit,
    Export,
    False,
    Hostname,
    Sed,
    Set,
    Sleep,
    Source,
    Test,
    True,
    Unset,
}

const NAMES: [(&str, Builtin); 17] = [
    (".", Builtin::Source),
    (":", Builtin::True),
    ("[", Builtin::Test),
    ("chmod", Builtin::Chmod),
    ("echo", Builtin::Echo),
    ("exec", Builtin::Exec),
    ("exit", Builtin::Exit),
    ("export", Builtin::Export),
    ("false", Builtin::False),
    ("hostname", Builtin::Hostname),
    ("sed", Builtin::Sed),
    ("set", Builtin::Set),
    ("sleep", Builtin::Sleep),
    ("source", Builtin::Source),
    ("test", Builtin::Test),
    ("true", Builtin::True),
    ("unset", Builtin::Unset),
];

impl Builtin {
    pub(super) fn of(name: &str) -> Option<Self> {
        NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, builtin)| builtin)
    }
}

impl Shell {
    /// Runs a builtin, and returns its status.
    pub(super) fn builtin(
        &mut self,
        builtin: Builtin,
        words: &[String],
        streams: &Streams,
    ) -> Result<i32, Stop> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match builtin {
            Builtin::True => Ok(0),
            // The shell runs it itself.
            Builtin::Exec | Builtin::False => Ok(1),
            Builtin::Exit => {
                let code = words.first().map_or(Ok(self.status), |code| code.parse());
                Err(Stop::Exit(code.map_err(|_| Failure::usage("exit: expected a number"))?))
            }
            Builtin::Echo => {
                print(streams, &echoed(&words))?;
                Ok(0)
            }
            Builtin::Export => {
                for word in words {
                    match word.split_once('=') {
                        Some((name, value)) => self.set(name, value.to_owned(), true),
                        None => {
                            let value = self.variable(word).unwrap_or_default();
                            self.set(word, value, true);
                        }
                    }
                }
                Ok(0)
            }
            Builtin::Unset => {
                for word in words {
                    self.variables.remove(word);
                }
                Ok(0)
            }
            Builtin::Set => Ok(self.options(&words)?),
            Builtin::Sleep => {
                std::thread::sleep(duration(&words)?);
                Ok(0)
            }
            Builtin::Source => {
                let path = words.first().ok_or_else(|| Failure::usage("source: expected a file"))?;
                self.source(path)?;
                Ok(self.status)
            }
            Builtin::Test => Ok(i32::from(!is_true(&words)?)),
            Builtin::Hostname => {
                print(streams, &format!("{}\n", hostname(&words)?))?;
                Ok(0)
            }
            Builtin::Sed => Ok(delete_lines(&words)?),
            Builtin::Chmod => Ok(set_mode(&words)?),
        }
    }

    fn options(&mut self, words: &[&str]) -> Result<i32, Failure> {
        for word in words {
            match *word {
                "-e" | "errexit" => self.ends_at_failure = true,
                "+e" => self.ends_at_failure = false,
                // Traces, and names without a value: they change no result of a script that works.
                "-x" | "-u" | "-o" | "nounset" | "verbose" | "xtrace" => {}
                "-eu" | "-ex" => self.ends_at_failure = true,
                other => return Err(Failure::usage(format!("set {other} is not supported"))),
            }
        }
        Ok(0)
    }
}

/// Writes a message to the standard errors of a command, or of the shell. An error is ignored: the
/// engine may have closed the stream.
pub(super) fn tell(errors: Option<OwnedFd>, text: &str) {
    let _ = match errors {
        Some(errors) => File::from(errors).write_all(text.as_bytes()),
        None => std::io::stderr().write_all(text.as_bytes()),
    };
}

fn print(streams: &Streams, text: &str) -> Result<(), Failure> {
    let written = match &streams.output {
        Some(output) => output.try_clone().and_then(|output| File::from(output).write_all(text.as_bytes())),
        None => std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()),
    };
    written.map_err(|error| Failure::new(format!("cannot write: {error}")))
}

/// Output of `echo`.
fn echoed(words: &[&str]) -> String {
    let options = words.iter().take_while(|word| ["-e", "-n", "-ne", "-en"].contains(word)).count();
    let has = |letter: char| words[..options].iter().any(|word| word.contains(letter));
    let mut text = words[options..].join(" ");
    if has('e') {
        text = text.replace("\\n", "\n").replace("\\t", "\t");
    }
    if !has('n') {
        text.push('\n');
    }
    text
}

fn duration(words: &[&str]) -> Result<Duration, Failure> {
    let given = words.first().map(|word| word.strip_suffix('s').unwrap_or(word));
    let seconds = given.and_then(|word| word.parse::<f64>().ok());
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| Failure::usage("sleep: expected a number of seconds"))
}

/// Result of `test` and `[`.
fn is_true(words: &[&str]) -> Result<bool, Failure> {
    let words = words.strip_suffix(&["]"]).unwrap_or(words);
    match words {
        ["!", rest @ ..] => Ok(!is_true(rest)?),
        [] => Ok(false),
        [text] => Ok(!text.is_empty()),
        ["-f", path] => Ok(Path::new(path).is_file()),
        ["-d", path] => Ok(Path::new(path).is_dir()),
        ["-e", path] => Ok(Path::new(path).exists()),
        ["-s", path] => Ok(fs::metadata(path).is_ok_and(|found| found.len() > 0)),
        ["-z", text] => Ok(text.is_empty()),
        ["-n", text] => Ok(!text.is_empty()),
        [one, "=" | "==", other] => Ok(one == other),
        [one, "!=", other] => Ok(one != other),
        [one, comparison @ ("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge"), other] => {
            let number = |text: &str| {
                text.parse::<i64>().map_err(|_| Failure::usage(format!("test: {text} is not a number")))
            };
            let order = number(one)?.cmp(&number(other)?);
            Ok(match *comparison {
                "-eq" => order.is_eq(),
                "-ne" => order.is_ne(),
                "-lt" => order.is_lt(),
                "-le" => order.is_le(),
                "-gt" => order.is_gt(),
                _ => order.is_ge(),
            })
        }
        other => Err(Failure::usage(format!("test {} is not supported", other.join(" ")))),
    }
}

/// The name of the container, or with `-i` its address from `/etc/hosts`, where engines write it.
fn hostname(words: &[&str]) -> Result<String, Failure> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|error| Failure::new(format!("hostname: {path}: {error}")))
    };
    let name = read("/proc/sys/kernel/hostname")?.trim().to_owned();
    match words {
        [] | ["-f" | "-s"] => Ok(name),
        ["-i"] => address(&read("/etc/hosts")?, &name)
            .ok_or_else(|| Failure::new(format!("hostname -i: /etc/hosts has no address of {name}"))),
        other => Err(Failure::usage(format!("hostname {} is not supported", other.join(" ")))),
    }
}

/// The first address of a host in a table of hosts.
pub(super) fn address(hosts: &str, name: &str) -> Option<String> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut entries = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = entries.find(|entry| entry.iter().skip(1).any(|host| *host == name))?;
    found.first().map(|address| (*address).to_owned())
}

/// `sed -i /TEXT/d FILE`: deletes the lines that contain a plain text.
fn delete_lines(words: &[&str]) -> Result<i32, Failure> {
    let other =
        || Failure::usage("sed: only -i '/TEXT/d' FILE is supported, with letters, digits and _ in TEXT");
    let ["-i", expression, path] = words else { return Err(other()) };
    let text = expression.strip_prefix('/').and_then(|rest| rest.strip_suffix("/d")).ok_or_else(other)?;
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(other());
    }
    let failed = |error| Failure::new(format!("sed: {path}: {error}"));
    let before = fs::read_to_string(path).map_err(failed)?;
    let kept = before.split_inclusive('\n').filter(|line| !line.contains(text));
    fs::write(path, kept.collect::<String>()).map_err(failed)?;
    Ok(0)
}

fn set_mode(words: &[&str]) -> Result<i32, Failure> {
    let [mode, paths @ ..] = words else { return Err(Failure::usage("chmod: expected a mode")) };
    let mode = match *mode {
        "+x" | "a+x" => 0o755,
        mode => u32::from_str_radix(mode, 8)
            .map_err(|_| Failure::usage(format!("chmod {mode} is not supported: expected a number")))?,
    };
    for path in paths {
        fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(|error| Failure::new(format!("chmod: {path}: {error}")))?;
    }
    Ok(0)
}
