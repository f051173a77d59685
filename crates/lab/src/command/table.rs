//! The tables of `levada lab`: one row per case, with its figures, their spread, and their ratio to
//! the first case.

use std::io::Write;

use crate::record::{Better, Line, Metric};
use crate::statistics::Interval;
use crate::summary::{Calls, Group, Row, Summary};

use levada_terminal::failure::Failure;
use levada_terminal::output::{self, NOTHING};

/// Prints the tables of one experiment.
pub(super) fn print(summary: &Summary, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{}", summary.shows)?;
    for group in &summary.groups {
        writeln!(out)?;
        print_group(summary, group, out)?;
    }
    print_calls(summary, out)?;
    if !summary.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &summary.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

/// Prints a row for each system call of each case, if the experiment timed system calls.
fn print_calls(summary: &Summary, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = summary.groups.iter().flat_map(|group| &group.rows);
    let calls = rows.flat_map(|row| row.calls.iter().map(move |calls| (&row.case, calls)));
    let cells = |(case, calls): (&String, &Calls)| {
        let ms = |value: f64| format!("{value:.4}");
        let count = number(calls.calls);
        let times = [calls.total_ms, calls.min_ms, calls.avg_ms, calls.max_ms].map(ms);
        [case.clone(), calls.name.clone(), count].into_iter().chain(times).collect()
    };
    let rows: Vec<Vec<String>> = calls.map(cells).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    output::table(out, &["CASE", "SYSTEM CALL", "CALLS", "TOTAL ms", "MIN ms", "AVG ms", "MAX ms"], rows)
}

fn print_group(summary: &Summary, group: &Group, out: &mut dyn Write) -> Result<(), Failure> {
    let metrics: Vec<&Metric> = summary
        .metrics
        .iter()
        .filter(|metric| group.rows.iter().any(|row| row.metrics.contains_key(&metric.name)))
        .collect();
    let title = if group.name.is_empty() { "CASE".to_owned() } else { group.name.to_uppercase() };
    let mut header = vec![title];
    for (index, metric) in metrics.iter().enumerate() {
        header.push(heading(metric));
        if index == 0 {
            header.push("±".to_owned());
            header.push("RELATIVE".to_owned());
        }
    }
    header.push("CHECKED".to_owned());
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    output::table(out, &header, group.rows.iter().map(|row| cells(row, &metrics)).collect())
}

fn heading(metric: &Metric) -> String {
    format!("{} {}", metric.label.to_uppercase(), metric.unit).trim_end().to_owned()
}

fn cells(row: &Row, metrics: &[&Metric]) -> Vec<String> {
    let mut cells = vec![row.case.clone()];
    for (index, metric) in metrics.iter().enumerate() {
        let value = row.metrics.get(&metric.name);
        cells.push(value.map_or_else(|| NOTHING.to_owned(), |value| number(value.median)));
        if index == 0 {
            cells.push(value.map_or_else(|| NOTHING.to_owned(), spread));
            cells.push(relative(row, metric));
        }
    }
    cells.push(match row.sound {
        Some(true) => "sound".to_owned(),
        Some(false) => "WRONG".to_owned(),
        None => NOTHING.to_owned(),
    });
    cells
}

fn spread(interval: &Interval) -> String {
    interval.spread().map_or_else(|| NOTHING.to_owned(), |spread| format!("{:.0} %", spread * 100.0))
}

/// Factor by which the row is better than the first case, in brackets if the confidence interval
/// contains 1.
fn relative(row: &Row, metric: &Metric) -> String {
    let Some(relative) = row.relative.filter(|_| metric.better != Better::Neither) else {
        return NOTHING.to_owned();
    };
    let text = format!("{:.2}×", relative.median);
    if relative.low <= 1.0 && relative.high >= 1.0 && relative.low != relative.high {
        return format!("({text})");
    }
    text
}

/// Formats a value with three significant digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 | 100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// Returns the reasons why figures of a record are not reliable.
pub(super) fn doubts(lines: &[Line]) -> Vec<String> {
    let doubt = |line: &Line| match line {
        Line::Note(note) if note.experiment.is_none() => vec![note.text.clone()],
        Line::Ended(ended) => {
            ended.noise.doubts.iter().map(|doubt| format!("{}: {doubt}", ended.experiment)).collect()
        }
        _ => Vec::new(),
    };
    lines.iter().flat_map(doubt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        fn check(value: f64, expected: &str) {
            assert_eq!(number(value), expected);
        }
        check(0.0, "0");
        check(0.012_345, "0.0123");
        check(0.5, "0.500");
        check(2.7345, "2.73");
        check(27.345, "27.3");
        check(27345.6, "27346");
    }
}
