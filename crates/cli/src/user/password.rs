//! A password from a file, or from the terminal without echo.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::failure::Failure;
use crate::stderr;

/// Longer passwords are a mistake, such as the wrong file.
const BYTES_MAX: u64 = 1024;

/// The first line of a file, of stdin for `-`, or typed input.
pub(super) fn read(file: Option<&Path>, user: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot read the password of {user}: {error}"));
    let password = match file {
        Some(path) if path != Path::new("-") => first_line(File::open(path).map_err(failed)?),
        None if io::stdin().is_terminal() => return typed_twice(user),
        _ => first_line(io::stdin()),
    };
    not_empty(password.map_err(failed)?, user)
}

fn not_empty(password: String, user: &str) -> Result<String, Failure> {
    if password.is_empty() {
        Err(Failure::Usage(format!("the password of {user} is empty")))
    } else {
        Ok(password)
    }
}

/// Asks twice: a typing mistake in an invisible password would lock the user out.
fn typed_twice(user: &str) -> Result<String, Failure> {
    let ask = |question: String| {
        let failed = |error| Failure::new(format!("cannot read the password of {user}: {error}"));
        not_empty(typed(&question).map_err(failed)?, user)
    };
    let password = ask(format!("password of {user}: "))?;
    if ask("repeat the password: ".to_owned())? == password {
        Ok(password)
    } else {
        Err(Failure::with_next(
            "the two passwords differ; nothing was changed",
            "the same command again, or --password-file",
        ))
    }
}

fn first_line(input: impl Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(input.take(BYTES_MAX)).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn typed(question: &str) -> io::Result<String> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    // After the flush, which discards earlier input.
    stderr::ask(question);
    let line = first_line(&stdin);
    let restored = tcsetattr(&stdin, OptionalActions::Flush, &before);
    tell!("");
    restored?;
    line
}
