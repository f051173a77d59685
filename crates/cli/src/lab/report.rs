//! `levada lab report`: the HTML page of a record.

use std::path::{Path, PathBuf};

use levada_lab::record::Line;

use super::read_record;
use crate::failure::Failure;

/// A record, and the place of the page.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Record of `levada lab`
    record: PathBuf,
    /// File for the page [default: the record's name, ending in .html]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let lines = read_record(&args.record)?;
    let beside = || args.record.with_extension("html");
    write(&lines, &args.out.clone().unwrap_or_else(beside))
}

/// Writes the page; an existing page is replaced as a whole.
pub(super) fn write(lines: &[Line], path: &Path) -> Result<(), Failure> {
    let failed = |error| {
        let what = format!("cannot write the report {}: {error}", path.display());
        Failure::with_next(what, "name another place; `levada lab report RECORD --out FILE` draws it again")
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, levada_lab::report::html(lines)).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)?;
    tell!("report: {}", path.display());
    Ok(())
}
