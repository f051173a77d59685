//! A password from a file, or from the terminal without echo.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::interrupt;
use levada_terminal::failure::Failure;
use levada_terminal::stderr;

/// Longer passwords are a mistake, such as the wrong file.
const BYTES_MAX: usize = 1024;

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

/// Prompts twice: a typing mistake in an invisible password would lock the user out.
fn typed_twice(user: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot read the password of {user}: {error}"));
    let before = tcgetattr(io::stdin()).map_err(|error| failed(error.into()))?;
    // A signal would leave the terminal without echo, and the next prompt on this line.
    interrupt::end_after(move || {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        tell!("");
    })?;
    let ask = |question: String| not_empty(typed(&question).map_err(failed)?, user);
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
    let end_bytes = "\r\n".len();
    BufReader::new(input.take((BYTES_MAX + end_bytes + 1) as u64)).read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.len() > BYTES_MAX {
        return Err(io::Error::other(format!("its line has more than {BYTES_MAX} bytes")));
    }
    Ok(password.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_passwords_are_not_truncated() {
        let longest = "p".repeat(BYTES_MAX);
        for end in ["", "\n", "\r\n", "\nmore"] {
            assert_eq!(first_line(format!("{longest}{end}").as_bytes()).unwrap(), longest, "{end:?}");
            let error = first_line(format!("{longest}p{end}").as_bytes()).unwrap_err();
            assert!(error.to_string().contains("more than 1024 bytes"), "{error}");
        }
    }
}
