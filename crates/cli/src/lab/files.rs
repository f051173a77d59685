//! `levada lab files`: `levada files` and nginx side by side.

use std::io::Write;
use std::path::PathBuf;

use levada_lab::files::{FileServers, OFFERS};

use super::side_by_side::{self, SideArgs};
use crate::failure::Failure;

/// Compare servers of static files: levada files and, on request, nginx
///
/// Each server has one worker on one processor; the client has another. nginx has the settings of
/// Debian's package, no access log and a cache of open files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada lab files --quick                      Levada and a bare loop, a first look at everything
  levada lab files requests volume --nginx
  levada lab files --nginx=/usr/sbin/nginx --full --record f.jsonl")]
pub(super) struct Args {
    /// Experiments to run [default: all]
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    experiments: Vec<String>,
    /// Measure nginx as well: PROGRAM, or nginx in PATH
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, require_equals = true, default_missing_value = "nginx")]
    nginx: Option<PathBuf>,
    #[command(flatten)]
    side: SideArgs,
}

fn names() -> clap::builder::PossibleValuesParser {
    OFFERS.map(|offer| offer.name).into()
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let systems = |levada| FileServers { levada, nginx: args.nginx.clone() };
    side_by_side::run(&args.side, (&OFFERS, &args.experiments), systems, out)
}
