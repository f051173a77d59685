//! A line of stdin as a record.

use std::borrow::Cow;

use levada_client::Record;
use levada_terminal::failure::Failure;
use levada_terminal::output::counted;
use levada_wire::error_code::ErrorCode;

use super::schemas::Encoders;
use super::{Args, Form, Separator, json};

/// Reads lines in the form of `--input`.
pub(super) struct Reader<'a> {
    input: Form,
    separator: Option<&'a Separator>,
    headers: &'a [(String, String)],
    /// Partition of every record.
    partition: Option<i32>,
    encoders: Encoders,
    lines: u64,
    with_separator: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(args: &'a Args, encoders: Encoders) -> Self {
        let separator = args.key_separator.as_ref();
        let (input, headers, partition) = (args.input, args.headers.as_slice(), args.partition);
        Self { input, separator, headers, partition, encoders, lines: 0, with_separator: 0 }
    }

    /// The record of a line, with the headers of `--header` after its headers, and the partition of
    /// `--partition` instead of its partition.
    pub(super) fn read<'l>(&mut self, line: &'l [u8], number: u64) -> Result<Record<'l>, Failure>
    where
        'a: 'l,
    {
        let mut record = match self.input {
            Form::Json => json::record(line, &self.encoders).map_err(|error| wrong(number, &error))?,
            Form::Text => {
                let record = self.split(line);
                self.encoders.encode(record).map_err(|error| misfit(number, &error))?
            }
        };
        record.partition = self.partition.or(record.partition);
        let bytes = |text: &'a String| Cow::Borrowed(text.as_bytes());
        record.headers.extend(self.headers.iter().map(|(key, value)| (bytes(key), Some(bytes(value)))));
        Ok(record)
    }

    fn split<'l>(&mut self, line: &'l [u8]) -> Record<'l> {
        let (key, value) = match self.separator {
            Some(separator) => split_key(line, &separator.bytes),
            None => (None, line),
        };
        self.lines += 1;
        self.with_separator += u64::from(key.is_some());
        Record { key: key.map(Cow::Borrowed), value: Some(Cow::Borrowed(value)), ..Record::default() }
    }

    /// Adds advice for this form of lines to a refusal of records without a key; other failures are
    /// unchanged.
    pub(super) fn explained(&self, failure: Failure) -> Failure {
        let lacking = self.lines - self.with_separator;
        let next = match (self.input, self.separator) {
            (Form::Json, _) => "a compacted topic needs keys: a field \"key\" in each line".to_owned(),
            (Form::Text, Some(separator)) if lacking > 0 => {
                let (lines, text) = (counted(self.lines, "line", "lines"), &separator.text);
                format!(
                    "lines of the form KEY{text}VALUE, or another --key-separator: {lacking} of {lines} have no {text:?}"
                )
            }
            (Form::Text, _) => return failure,
        };
        match failure {
            Failure::Failed { what, cause, .. } if cause.code() == Some(ErrorCode::InvalidRecord) => {
                Failure::with_next(what, next).because(cause)
            }
            other => other,
        }
    }

    /// Prints a note if a separator was given and no line contained it.
    pub(super) fn warn(&self) {
        if let Some(separator) = self.separator
            && self.lines > 0
            && self.with_separator == 0
        {
            tell!(
                "warning: no line contains the separator {:?}; all records are without a key",
                separator.text
            );
        }
    }
}

fn wrong(number: u64, error: &str) -> Failure {
    Failure::with_next(
        format!("line {number}: {error}"),
        "a line such as {\"key\": \"k\", \"value\": \"v\"}; the lines before this one are produced",
    )
}

/// A line of text that does not fit a schema.
fn misfit(number: u64, error: &str) -> Failure {
    let next = "a value of the schema in JSON on each line; the lines before this one are produced";
    Failure::with_next(format!("line {number}: {error}"), next)
}

/// Key and value around the first separator; a line without one has no key.
pub(super) fn split_key<'l>(line: &'l [u8], separator: &[u8]) -> (Option<&'l [u8]>, &'l [u8]) {
    match line.windows(separator.len()).position(|window| window == separator) {
        Some(at) => (Some(&line[..at]), &line[at + separator.len()..]),
        None => (None, line),
    }
}
