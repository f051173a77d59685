//! Output of results: aligned columns for people, JSON for programs, always on stdout.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

use clap::ValueEnum;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::colour::{self, Style};
use crate::escapes::{printable, quiet_json};
use crate::failure::Failure;

mod widths;

/// The form of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Table,
    /// JSON.
    Json,
}

/// The option of every command that reads.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct FormatArgs {
    /// Output format
    #[arg(long = "output", value_name = "FORM", default_value = "table", display_order = 100)]
    pub format: Format,
}

/// Stdout behind one large buffer. The line buffer of the standard library would make a system call
/// every few lines.
pub fn stdout() -> io::Result<BufWriter<File>> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(BufWriter::with_capacity(256 * 1024, file))
}

/// True once the reader of stdout has closed its pipe, as `head` does: nothing that this process
/// prints can arrive.
pub fn stdout_is_closed() -> bool {
    has_no_reader(io::stdout().as_fd())
}

fn has_no_reader(fd: BorrowedFd<'_>) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    let found = poll(&mut polled, Some(&AT_ONCE)).is_ok_and(|count| count > 0);
    found && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Text of an empty cell.
pub const NOTHING: &str = "-";

/// A number for a table's cell, or [`NOTHING`].
pub fn number(number: Option<i64>) -> String {
    number.map_or_else(|| NOTHING.to_owned(), |number| number.to_string())
}

/// A text for a table's cell, or [`NOTHING`] if it is empty.
pub fn or_nothing(text: &str) -> String {
    if text.is_empty() { NOTHING.to_owned() } else { printable(text.as_bytes()) }
}

/// Prints rows below a header; columns whose every cell is a number are aligned to the right. On a
/// terminal, cells fold so that a row is no wider than that; elsewhere each row is one line.
/// Control characters are escaped, and cells end after 1000 characters: many texts are
/// those of other clients.
pub fn table(out: &mut dyn Write, header: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    for (index, line) in arranged(header, rows, terminal_width()).iter().enumerate() {
        match index {
            0 => writeln!(out, "{}", colour::out(Style::Bold, line.trim_end()))?,
            _ => writeln!(out, "{}", line.trim_end())?,
        }
    }
    Ok(())
}

/// Prints the first of several forms of a table that fits into the terminal, or otherwise the last
/// one. Without a terminal it prints the first one.
pub fn table_in_forms(out: &mut dyn Write, forms: Vec<(Vec<&str>, Vec<Vec<String>>)>) -> Result<(), Failure> {
    let width = terminal_width().map(usize::from);
    let fits = |(header, rows): &(Vec<&str>, Vec<Vec<String>>)| {
        width.is_none_or(|width| widths::fitting(header, rows, width).is_none())
    };
    let chosen = forms.iter().position(fits).unwrap_or(forms.len().saturating_sub(1));
    let Some((header, rows)) = forms.into_iter().nth(chosen) else { return Ok(()) };
    table(out, &header, rows)
}

/// Columns of the terminal that stdout is.
fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    let columns = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?.ws_col;
    Some(columns).filter(|columns| *columns > 0)
}

/// The lines of a table that is at most as wide as `width`.
fn arranged(header: &[&str], rows: Vec<Vec<String>>, width: Option<u16>) -> Vec<String> {
    let shown = |row: Vec<String>| row.iter().map(|cell| clipped(printable(cell.as_bytes()))).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(shown).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    let widths = width.map(usize::from).and_then(|width| widths::fitting(header, &rows, width));
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    let is_number = |cell: &&String| cell.parse::<f64>().is_ok();
    let numeric = |column: usize| {
        let mut cells =
            rows.iter().filter_map(|row| row.get(column)).filter(|cell| *cell != NOTHING).peekable();
        cells.peek().is_some() && cells.all(|cell| is_number(&cell))
    };
    let numeric: Vec<bool> = (0..header.len()).map(numeric).collect();
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, widths::GAP as u16));
        if let Some(width) = widths.as_ref().and_then(|widths| widths.get(index)) {
            let whole = u16::try_from(width + widths::GAP).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(whole)));
        }
        if numeric.get(index) == Some(&true) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().collect()
}

/// Maximum number of characters of a cell that a table shows. A longer one would widen each row;
/// JSON has all of it.
const CELL_MAX: usize = 1_000;

fn clipped(mut cell: String) -> String {
    if let Some((end, _)) = cell.char_indices().nth(CELL_MAX) {
        cell.truncate(end);
        cell.push('…');
    }
    cell
}

/// Prints one value as indented JSON.
pub fn json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    writeln!(out, "{}", quiet_json(&serde_json::to_string_pretty(value)?))?;
    Ok(())
}

/// Prints one value as JSON on one line.
pub fn json_line(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    writeln!(out, "{}", quiet_json(&serde_json::to_string(value)?))?;
    Ok(())
}

/// Prints the descriptions that were found, then fails if others could not be.
pub fn descriptions<T>(
    out: &mut dyn Write,
    format: Format,
    asked: impl Iterator<Item = Result<T, Failure>>,
    as_json: impl Fn(&mut dyn Write, &[T]) -> Result<(), Failure>,
    as_text: impl Fn(&T, &mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut described, mut failures) = (Vec::new(), Vec::new());
    for one in asked {
        match one {
            Ok(description) => described.push(description),
            Err(failure) => failures.push(failure),
        }
    }
    let printed = match format {
        Format::Json => as_json(out, &described),
        Format::Table => described.iter().enumerate().try_for_each(|(index, description)| {
            if index > 0 {
                writeln!(out)?;
            }
            as_text(description, out)
        }),
    };
    let printed = printed.and_then(|()| Ok(out.flush()?));
    // A closed pipe does not hide a failure.
    Failure::all(failures).and(printed)
}

/// A count with its noun.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_without_reader_is_detected_without_writing() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(!has_no_reader(writer.as_fd()));
        drop(reader);
        assert!(has_no_reader(writer.as_fd()));
        assert!(!has_no_reader(tempfile::tempfile().unwrap().as_fd()), "a file has no reader to lose");
    }

    #[test]
    fn table_truncates_long_cells() {
        let row = ["x".repeat(30_000), "y".to_owned()].to_vec();
        let lines = arranged(&["OWNER", "TOKEN"], vec![row], None);
        assert_eq!(lines[1].trim_end().chars().count(), CELL_MAX + "…  y".chars().count());
    }

    #[test]
    fn table_wraps_at_the_terminal_width() {
        let long = "a-member-with-a-name-of-sixty-characters-".repeat(2);
        let row = [long.as_str(), "reader", "127.0.0.1", "12345"].map(str::to_owned).to_vec();
        let header = ["MEMBER", "CLIENT", "HOST", "LAG"];
        let whole = arranged(&header, vec![row.clone()], None);
        assert_eq!(whole.len(), 2, "one line a row without a terminal");
        let folded = arranged(&header, vec![row], Some(80));
        assert!(folded.iter().all(|line| line.chars().count() <= 80), "{folded:#?}");
        let first: String = folded[1..].iter().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(first, long, "{folded:#?}");
    }

    #[test]
    fn times_are_not_wrapped_beside_long_names() {
        let name = "topics.with.names.of.fifty.characters.are.not.rare";
        let row = [name, "0", "12345", "2026-11-28T12:11:14.058Z"].map(str::to_owned).to_vec();
        let lines = arranged(&["TOPIC", "PARTITION", "LATEST", "TIME"], vec![row], Some(80));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("2026-11-28T12:11:14.058Z")), "{lines:#?}");
    }

    #[test]
    fn table_cell_escapes_controls_and_line_breaks() {
        let row = vec!["\x1b]0;title\x07\u{9b}2J".to_owned(), "a\nb".to_owned()];
        let mut out = Vec::new();
        table(&mut out, &["GROUP", "CLIENT"], vec![row]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().nth(1), Some("\\x1b]0;title\\x07\\u{9b}2J  a\\nb"), "{text}");
        assert_eq!(or_nothing("\x1b[2J"), "\\x1b[2J");
    }

    #[test]
    fn columns_of_numbers_are_aligned_to_the_right() {
        let rows = [["a", "7"], ["bcd", "100"]].map(|row| row.map(str::to_owned).to_vec());
        let mut out = Vec::new();
        table(&mut out, &["NAME", "COUNT"], rows.to_vec()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME  COUNT\na         7\nbcd     100\n");
        let mut out = Vec::new();
        table(&mut out, &["NAME"], Vec::new()).unwrap();
        assert_eq!(out, b"NAME\n");
    }
}
