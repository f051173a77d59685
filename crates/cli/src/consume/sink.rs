//! Prints the records that pass `--grep`, up to `--count`.

use std::io::{self, IsTerminal as _, Write};

use levada_client::{ClientError, FetchedRecord, Notice, Watch as _};
use levada_schema::Schemas;
use levada_terminal::failure::Failure;

use super::schemas::{Parts, Reader};
use super::{Args, Form, format};
use crate::notices::Reporter;
use crate::{interrupt, output};

/// The end of the way of a record.
pub(super) struct Sink<'a> {
    args: &'a Args,
    out: &'a mut dyn Write,
    left: u64,
    is_terminal: bool,
    /// Decodes keys and values, if a schema registry is named.
    reader: Option<Reader>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(args: &'a Args, schemas: Option<Schemas>, out: &'a mut dyn Write) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let (left, reader) = (args.count.unwrap_or(u64::MAX), schemas.map(Reader::new));
        Self { args, out, left, is_terminal, reader }
    }

    /// True once `--count` records are printed.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Records that may still be printed.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// True once `--count` records are printed, or a signal has arrived.
    pub(super) fn is_done(&self) -> bool {
        self.is_full() || interrupt::is_asked()
    }

    /// True if the key or the value, as it is printed, matches `--grep`.
    fn is_wanted(&self, fetched: &FetchedRecord<'_>, parts: &Parts) -> bool {
        let Some(grep) = &self.args.grep else { return true };
        let (key, value) = (fetched.record.key.as_deref(), fetched.record.value.as_deref());
        let texts = [Parts::shown(parts.key.as_ref(), key), Parts::shown(parts.value.as_ref(), value)];
        texts.into_iter().flatten().any(|text| grep.is_match(text))
    }

    /// Flushes the printed records.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

impl levada_client::Sink for Sink<'_> {
    type Error = Failure;

    fn is_done(&self) -> bool {
        self.is_done()
    }

    /// Prints a record, unless `--grep` leaves it out.
    fn take(&mut self, fetched: &FetchedRecord<'_>) -> Result<(), Failure> {
        let parts = self.reader.as_mut().map(|reader| reader.decode(fetched.record)).unwrap_or_default();
        if !self.is_wanted(fetched, &parts) {
            return Ok(());
        }
        self.left = self.left.saturating_sub(1);
        match self.args.output {
            Form::Text => self.args.format.print(self.out, (fetched, &parts), self.is_terminal),
            Form::Json => output::json_line(self.out, &format::json(fetched, &parts)),
        }
    }

    fn notice(&mut self, notice: Notice<'_, ClientError>) {
        Reporter.notice(notice);
    }
}
