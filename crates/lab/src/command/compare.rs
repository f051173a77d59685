//! `levada lab compare`: significant differences between two records.

use std::io::Write;

use crate::compare::{self, Compared, ComparisonVerdict, LEAST_CHANGE, LEAST_SHARED_CHANGE};
use crate::record::Line;

use super::read_record;
use levada_terminal::failure::Failure;
use levada_terminal::lab::CompareArgs;
use levada_terminal::output::{self, Format, NOTHING};
use levada_terminal::tell;

pub(super) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (before, after) = (read_record(&args.before)?, read_record(&args.after)?);
    let compared = compare::of(&before, &after);
    if compared.is_empty() {
        return Err(Failure::with_next(
            format!("{} and {} have no case in common", args.before.display(), args.after.display()),
            "name two records of the same experiment",
        ));
    }
    match args.format.format {
        Format::Json => output::json(out, &compared)?,
        Format::Table => print(&compared, out)?,
    }
    if machine(&before) != machine(&after) {
        tell!("warning: the comparison is not reliable: the records are from different machines");
    }
    Ok(())
}

fn print(compared: &[Compared], out: &mut dyn Write) -> Result<(), Failure> {
    let header = ["EXPERIMENT", "GROUP", "CASE", "METRIC", "BEFORE", "AFTER", "CHANGE", "VERDICT"];
    output::table(out, &header, compared.iter().map(cells).collect())?;
    let different = compared.iter().filter(|one| is_different(one.verdict)).count();
    writeln!(out)?;
    match different {
        0 => writeln!(out, "no difference in {} cases", compared.len())?,
        _ => writeln!(out, "{different} of {} cases differ", compared.len())?,
    }
    let too_few = compared.iter().filter(|one| one.verdict == ComparisonVerdict::TooFew).count();
    if too_few > 0 {
        tell!(
            "note: {too_few} cases have too few rounds for a verdict; run at least nine rounds for each record"
        );
    }
    tell!(
        "note: changes of less than {:.0} % count as noise of the machine, and so do changes of less than {:.0} % that all cases share",
        LEAST_CHANGE * 100.0,
        LEAST_SHARED_CHANGE * 100.0
    );
    Ok(())
}

fn is_different(verdict: ComparisonVerdict) -> bool {
    matches!(verdict, ComparisonVerdict::Better | ComparisonVerdict::Worse | ComparisonVerdict::Changed)
}

fn cells(one: &Compared) -> Vec<String> {
    let percent = |quotient: f64| format!("{:+.1} %", (quotient - 1.0) * 100.0);
    let change = one.change.map_or_else(
        || NOTHING.to_owned(),
        |change| {
            format!("{} ({} to {})", percent(change.quotient), percent(change.low), percent(change.high))
        },
    );
    let verdict = match one.verdict {
        ComparisonVerdict::NoDifference => "no difference",
        ComparisonVerdict::Better => "better",
        ComparisonVerdict::Worse => "worse",
        ComparisonVerdict::Changed => "changed",
        ComparisonVerdict::TooFew => "too few rounds",
    };
    let metric = format!("{} {}", one.metric.label, one.metric.unit).trim_end().to_owned();
    let value = |value: f64| format!("{value:.4}");
    vec![
        one.experiment.clone(),
        one.group.clone(),
        one.case.clone(),
        metric,
        value(one.before),
        value(one.after),
        change,
        verdict.to_owned(),
    ]
}

/// Processor, kernel and number of processors: equal in two runs that can be compared.
fn machine(lines: &[Line]) -> Option<(&str, &str, usize)> {
    lines.iter().find_map(|line| match line {
        Line::Run(run) => Some((
            run.environment.processor.as_str(),
            run.environment.kernel.as_str(),
            run.environment.processors,
        )),
        _ => None,
    })
}
