//! A password from a file or, not to be seen by those who look on, from the terminal.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal, Read},
    path::Path,
};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::failure::Failure;

/// Longer passwords are a mistake, such as the wrong file.
const BYTES_MAX: u64 = 1024;

/// The first line of a file, of stdin for `-`, or what is typed.
pub(super) fn read(file: Option<&Path>, user: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot read the password of {user}: {error}"));
    let password = match file {
        Some(path) if path != Path::new("-") => first_line(File::open(path).map_err(failed)?),
        None if io::stdin().is_terminal() => typed(user),
        _ => first_line(io::stdin()),
    };
    match password.map_err(failed)? {
        empty if empty.is_empty() => Err(Failure::Usage(format!("the password of {user} is empty"))),
        password => Ok(password),
    }
}

fn first_line(input: impl Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(input.take(BYTES_MAX)).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn typed(user: &str) -> io::Result<String> {
    eprint!("password of {user}: ");
    let stdin = io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    let line = first_line(&stdin);
    let restored = tcsetattr(&stdin, OptionalActions::Flush, &before);
    eprintln!();
    restored?;
    line
}
