//! `levada completions`: scripts that let a shell complete the command line.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::Cli;
use levada_terminal::failure::Failure;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada completions bash > /etc/bash_completion.d/levada
  levada completions zsh > \"${fpath[1]}/_levada\"
  levada completions fish > ~/.config/fish/completions/levada.fish")]
pub(crate) struct Args {
    /// Shell to generate completions for
    shell: Shell,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    // `generate` panics where a pipe is closed, so it writes to memory.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "levada", &mut script);
    out.write_all(&script)?;
    Ok(())
}
