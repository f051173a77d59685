//! `levada lab files`: `levada files` and nginx side by side.

use std::io::Write;

use crate::files::{FileServers, OFFERS};

use super::side_by_side;
use levada_terminal::failure::Failure;
use levada_terminal::lab::FilesArgs;

pub(super) fn run(args: &FilesArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let systems = |levada| FileServers { levada, nginx: args.nginx.clone() };
    side_by_side::run(&args.side, (&OFFERS, &args.experiments), systems, out)
}
