//! `levada lab report`: the HTML page of a record.

use std::path::Path;

use crate::record::Line;

use super::read_record;
use levada_terminal::failure::Failure;
use levada_terminal::lab::ReportArgs;
use levada_terminal::tell;

pub(super) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let lines = read_record(&args.record)?;
    let beside = || args.record.with_extension("html");
    write(&lines, &args.out.clone().unwrap_or_else(beside))
}

/// Writes the page. The new page replaces an existing one by a rename.
pub(super) fn write(lines: &[Line], path: &Path) -> Result<(), Failure> {
    let failed = |error| {
        let what = format!("cannot write the report {}: {error}", path.display());
        Failure::with_next(
            what,
            "name another file: `levada lab report RECORD --out FILE` writes the report again",
        )
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, crate::report::html(lines)).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)?;
    tell!("report: {}", path.display());
    Ok(())
}
