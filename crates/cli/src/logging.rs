//! The log and the audit log: levels, format and destinations.
//!
//! Whatever a peer can put into a line of the log is escaped here, in one place: no value can begin a line of its own or steer a terminal.

use std::{fmt, path::Path};

use levada_broker::security::audit::TARGET as AUDIT;
use tracing::{Metadata, field::Field};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    field::MakeExt,
    filter::filter_fn,
    fmt::format::{Writer, debug_fn},
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

use crate::{colour, failure::Failure};

mod sink;
#[cfg(test)]
mod tests;

use self::sink::Sink;

/// The environment variable that says what is logged.
const VARIABLE: &str = "LEVADA_LOG";

/// The logs of this process. Dropped, it waits until the audit log is written.
pub(crate) struct Logs {
    audit: Sink,
    filter: reload::Handle<EnvFilter, Registry>,
    /// What the variable says, if it speaks of the audit log.
    asked: Option<String>,
}

/// Starts the log on stderr, from `info` up unless `LEVADA_LOG` says otherwise. The audit log is off unless it is named there, and also
/// goes to stderr until [`Logs::audit_to`] names a place.
pub(crate) fn start() -> Logs {
    let wanted = std::env::var(VARIABLE).unwrap_or_else(|_| "info".to_owned());
    let asked = wanted.contains(AUDIT).then(|| wanted.clone());
    let filter = |wanted: &str, otherwise: &str| {
        EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(otherwise))
    };
    let audit_filter = filter(asked.as_deref().unwrap_or("off"), "off");
    let (audit_filter, handle) = reload::Layer::new(audit_filter);
    let is_audit = |metadata: &Metadata<'_>| metadata.target() == AUDIT;
    let audit = Sink::start();
    let audit_layer = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(audit.writer());
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(colour::on_stderr())
        .fmt_fields(debug_fn(write_field).delimited(" "))
        // A terminal that was closed takes no complaint about lost lines either.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(audit_layer.with_filter(filter_fn(is_audit)).with_filter(audit_filter))
        .with(
            log.with_filter(filter_fn(move |metadata| !is_audit(metadata)))
                .with_filter(filter(&wanted, "info")),
        )
        .init();
    Logs { audit, filter: handle, asked }
}

impl Logs {
    /// Has the audit log written to a file, or to stderr (`levada.audit.log`), whether or not the environment asks for it.
    pub(crate) fn audit_to(&self, place: &str) -> Result<(), Failure> {
        let refused = |error: &dyn fmt::Display| Failure::new(format!("levada.audit.log: {place}: {error}"));
        if place != "stderr" {
            self.audit.write_to(Path::new(place)).map_err(|error| refused(&error))?;
        }
        let wanted = self.asked.clone().unwrap_or_else(|| format!("{AUDIT}=info"));
        self.filter.reload(EnvFilter::new(wanted)).map_err(|error| refused(&error))
    }
}

/// One field of a line: the message by itself, anything else with its name.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    let mut escaping = Escaping(writer);
    fmt::write(&mut escaping, format_args!("{value:?}"))
}

/// Writes text with everything escaped that could end a line or steer a terminal.
struct Escaping<'a, W>(&'a mut W);

impl<W: fmt::Write> fmt::Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, found)) = rest.char_indices().find(|(_, one)| is_steering(*one)) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", found.escape_default())?;
            rest = &rest[at + found.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Control characters, line separators, and what changes the direction of writing.
fn is_steering(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
