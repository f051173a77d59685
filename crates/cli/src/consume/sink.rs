//! Prints the records that pass `--grep`, up to `--count`.

use std::io::{self, IsTerminal as _, Write};

use levada_base::batch::Record;
use levada_client::{ClientError, FetchedRecord, Notice, Watch as _};
use levada_terminal::failure::Failure;

use super::{Args, Form, format};
use crate::notices::Reporter;
use crate::{interrupt, output};

/// The end of the way of a record.
pub(super) struct Sink<'a> {
    args: &'a Args,
    out: &'a mut dyn Write,
    left: u64,
    is_terminal: bool,
}

impl<'a> Sink<'a> {
    pub(super) fn new(args: &'a Args, out: &'a mut dyn Write) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { args, out, left: args.count.unwrap_or(u64::MAX), is_terminal }
    }

    /// True once `--count` records are printed.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Records that may still be printed.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// True once `--count` records are printed, or a signal has come.
    pub(super) fn is_done(&self) -> bool {
        self.is_full() || interrupt::is_asked()
    }

    fn is_wanted(&self, record: &Record) -> bool {
        let Some(grep) = &self.args.grep else { return true };
        let mut texts = [&record.key, &record.value].into_iter().flatten();
        texts.any(|text| grep.is_match(text))
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
        if !self.is_wanted(fetched.record) {
            return Ok(());
        }
        self.left = self.left.saturating_sub(1);
        match self.args.output {
            Form::Text => self.args.format.print(self.out, fetched, self.is_terminal),
            Form::Json => output::json_line(self.out, &format::json(fetched)),
        }
    }

    fn notice(&mut self, notice: Notice<'_, ClientError>) {
        Reporter.notice(notice);
    }
}
