//! `levada lab goals`: the page about the broker's cost goals, and the records from which it is
//! made.

use crate::{goals, report};

use super::claims::{json, write};
use super::read_record;
use levada_terminal::failure::Failure;
use levada_terminal::lab::GoalsArgs;

pub(super) fn run(args: &GoalsArgs) -> Result<(), Failure> {
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
