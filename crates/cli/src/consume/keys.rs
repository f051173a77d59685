//! Single keys from a terminal, without the Enter key.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use levada_terminal::failure::Failure;
use levada_terminal::stderr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Longest wait for a key in one call.
const WAIT: Duration = Duration::from_millis(100);

/// True if stdin and stdout are terminals, so that the user can see a prompt and press a key.
pub(super) fn are_available() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// A terminal that passes on each key without the Enter key, until the value is dropped.
pub(super) struct Keys {
    before: Termios,
}

impl Keys {
    /// Shows the question, and waits for keys from now on.
    pub(super) fn open(question: &str) -> Result<Self, Failure> {
        let before = tcgetattr(io::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(failed)?;
        stderr::ask(question);
        Ok(Self { before })
    }

    /// The next key; none after a wait of 100 ms, and after a signal.
    pub(super) fn next(&self) -> Result<Option<u8>, Failure> {
        let stdin = io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        let wait = Timespec { tv_sec: 0, tv_nsec: WAIT.as_nanos() as i64 };
        match poll(&mut polled, Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        let mut key = [0];
        match rustix::io::read(&stdin, &mut key) {
            Ok(0) => Err(Failure::new("the terminal is closed")),
            Ok(_) => Ok(Some(key[0])),
            Err(rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Shows the chosen key, and restores the terminal.
    pub(super) fn close(self, answer: &str) {
        tell!("{answer}");
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn failed(error: rustix::io::Errno) -> Failure {
    Failure::new(format!("cannot read from the terminal: {error}"))
}
