//! Checks that the figures in the README are those of the recorded runs, and that the picture shows
//! them.

use std::path::Path;

use super::{Complaint, Source};
use crate::picture::{self, PICTURE, cells};

const FIGURES: &str = "docs/performance/figures.md";
/// Number of rows of the README's table, which a reader takes in at a glance.
const ROWS: usize = 8;

/// Complains about rows of the README's table that the page of figures does not hold with the same
/// values, about a table that is not whole, and about a picture that shows other values than the
/// table.
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
    let rows = picture::table(&readme.text);
    let wrong = rows.iter().filter(|(_, row)| row.len() != 3 || !holds(row));
    let mut complaints: Vec<Complaint> = wrong
        .map(|(line, _)| readme.complaint(*line, format!("{FIGURES} has no such row with these values")))
        .collect();
    if rows.len() != ROWS {
        let what = format!("the table of figures has {} rows instead of {ROWS}", rows.len());
        complaints.push(readme.complaint(1, what));
    }
    if let (Some(drawn), Ok(expected)) = (page(PICTURE), picture::draw(&rows))
        && drawn.text != expected
    {
        complaints.push(drawn.complaint(1, "shows other figures than the README: run `cargo xtask picture`"));
    }
    complaints
}
