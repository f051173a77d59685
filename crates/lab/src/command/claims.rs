//! `levada lab claims`: the pages about claims of articles and about a splice that copies, the
//! records of both pages, and the pictures of the documentation.

use std::fs;
use std::path::Path;

use crate::claims::{self, PICTURES, Picture};
use crate::copying;
use crate::record::Line;
use crate::report;

use super::read_record;
use levada_terminal::failure::Failure;
use levada_terminal::lab::ClaimsArgs;

pub(super) fn run(args: &ClaimsArgs) -> Result<(), Failure> {
    let records = args.records.iter().map(|path| read_record(path)).collect::<Result<Vec<_>, _>>()?;
    let kept = claims::kept(&records);
    for (experiment, lines) in &kept {
        write(&args.docs.join(format!("lab/runs/{experiment}.jsonl")), &json(lines))?;
    }
    write(&args.docs.join("lab/claims.md"), &claims::page(&kept))?;
    write(&args.docs.join("lab/copying-splice.md"), &copying::page(&kept))?;
    for Picture { name, experiment, group } in PICTURES {
        let lines = kept.get(experiment).map_or(&[][..], Vec::as_slice);
        let drawn = report::picture(lines, experiment, group).ok_or_else(|| {
            Failure::with_next(
                format!("no record contains experiment {experiment}, group {group}"),
                "add the record that contains it to the command line",
            )
        })?;
        write(&args.docs.join(format!("pictures/{name}.svg")), &drawn)?;
    }
    Ok(())
}

pub(super) fn json(lines: &[Line]) -> String {
    lines
        .iter()
        .filter_map(|line| serde_json::to_string(line).ok())
        .fold(String::new(), |text, line| text + &line + "\n")
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let failed = |error| Failure::new(format!("cannot write {}: {error}", path.display()));
    fs::create_dir_all(dir).and_then(|()| fs::write(path, text)).map_err(failed)
}
