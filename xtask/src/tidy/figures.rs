//! The figures in the README are those of the recorded runs.

use std::path::Path;

use super::{Complaint, Source};

const FIGURES: &str = "docs/performance/figures.md";

/// The README's table lies between a line that begins with this, and [`END`].
const MARKER: &str = "<!-- figures:";
const END: &str = "<!-- end -->";

/// Complains about rows of the README's table that the page of figures does not hold with the same values.
pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let page = |path: &str| sources.iter().find(|source| source.path == Path::new(path));
    let (Some(readme), Some(figures)) = (page("README.md"), page(FIGURES)) else { return Vec::new() };
    let recorded: Vec<Vec<&str>> = figures.text.lines().map(cells).collect();
    // A row of the page: work, goal, Levada, the other, and more.
    let holds = |row: &[&str]| {
        recorded
            .iter()
            .any(|found| found.len() > 4 && [found[0], found[2], found[3]] == [row[0], row[1], row[2]])
    };
    let table = readme.text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(MARKER));
    let rows = table
        .take_while(|(_, line)| *line != END)
        .filter(|(_, line)| line.starts_with('|'))
        // The head of the table and the line below it.
        .skip(2);
    rows.filter(|(_, line)| !matches!(&cells(line)[..], row if row.len() == 3 && holds(row)))
        .map(|(index, _)| readme.complaint(index + 1, format!("{FIGURES} has no such row with these values")))
        .collect()
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}
