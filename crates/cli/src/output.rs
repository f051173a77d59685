//! How results are printed: aligned columns for people, JSON for programs, always on stdout.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    os::fd::AsFd,
};

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// The form of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns.
    #[default]
    Table,
    /// JSON.
    Json,
}

/// The option of every command that reads.
#[derive(Debug, clap::Args)]
pub(crate) struct FormatArgs {
    /// Form of the result
    #[arg(long = "output", value_name = "FORM", default_value = "table")]
    pub(crate) format: Format,
}

/// Stdout behind one large buffer; not the line buffer of the standard library, which costs a call per few lines.
pub(crate) fn stdout() -> io::Result<BufWriter<File>> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(BufWriter::with_capacity(256 * 1024, file))
}

/// Prints rows below a header; columns whose every cell is a number are aligned to the right.
pub(crate) fn table(out: &mut dyn Write, header: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    let is_number = |cell: &String| cell.parse::<f64>().is_ok() || cell == "-";
    let numeric: Vec<bool> = (0..header.len())
        .map(|column| !rows.is_empty() && rows.iter().all(|row| row.get(column).is_some_and(is_number)))
        .collect();
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numeric.get(index) == Some(&true) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Prints one value as indented JSON.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Prints one value as JSON on a line of its own.
pub(crate) fn json_line(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Bytes as people read them: text as it is, control characters and invalid UTF-8 escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c.is_control() {
                true => text.extend(c.escape_default()),
                false => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
