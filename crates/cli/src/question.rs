//! The confirmation before a deletion or an abort, on a terminal only.

use std::io::{self, IsTerminal as _};

use levada_terminal::failure::Failure;
use levada_terminal::stderr;

/// The option of commands that delete or abort.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Skip the confirmation; without a terminal, the command never asks for it
    #[arg(short, long)]
    yes: bool,
}

/// Refusal of commands that delete.
pub(crate) const NOTHING_DELETED: &str = "nothing was deleted";

impl Args {
    /// Asks for confirmation, unless `--yes` is given or stdin is not a terminal. Fails with
    /// `refusal`, such as "nothing was deleted", if the user does not confirm.
    pub(crate) fn ask(&self, what: &str, refusal: &str) -> Result<(), Failure> {
        if self.yes || !io::stdin().is_terminal() {
            return Ok(());
        }
        stderr::ask(&format!("{what}? [y/N] "));
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(refusal)),
        }
    }
}
