//! `levada-lab`: the program that `levada lab` runs.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args as _, Command, FromArgMatches as _};
use levada_terminal::failure::Failure;
use levada_terminal::lab::Args;
use levada_terminal::{colour, output};

fn main() -> ExitCode {
    levada_io::lookups::limit_to_built_in();
    let command = Command::new("levada-lab").bin_name("levada lab").version(env!("CARGO_PKG_VERSION"));
    let command = Args::augment_args(command).disable_help_subcommand(true);
    let args = Args::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    colour::decide();
    let ended = output::stdout()
        .map_err(Failure::from)
        .and_then(|mut out| levada_lab::command::run(args, &mut out).and_then(|()| Ok(out.flush()?)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
