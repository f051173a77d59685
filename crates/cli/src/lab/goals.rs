//! `levada lab goals`: the page about the broker's cost goals, and the records behind it.

use std::path::PathBuf;

use levada_lab::{goals, report};

use super::claims::{json, write};
use super::read_record;
use crate::failure::Failure;

/// Records, and the place of the result.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Record of `levada lab broker` or `levada lab files`
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// Directory of the documentation
    #[arg(long, value_name = "DIR", default_value = "docs")]
    docs: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let records = args.records.iter().map(|path| read_record(path)).collect::<Result<Vec<_>, _>>()?;
    let kept = goals::kept(&records);
    for (experiment, lines) in &kept {
        write(&args.docs.join(format!("performance/runs/{experiment}.jsonl")), &json(lines))?;
    }
    for (name, picture) in goals::flames(&records) {
        write(&args.docs.join(format!("performance/flames/{name}.svg")), &picture)?;
    }
    for goals::Picture { name, experiment, group } in goals::PICTURES {
        let lines = kept.get(experiment).map(Vec::as_slice).unwrap_or_default();
        if let Some(drawn) = report::picture(lines, experiment, group) {
            write(&args.docs.join(format!("performance/{name}.svg")), &drawn)?;
        }
    }
    write(&args.docs.join("performance/figures.md"), &goals::page(&kept))
}
