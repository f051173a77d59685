//! The log and the audit log: levels, format and destinations.
//!
//! Text of peers in a line of the log is escaped here, in one place: no value can begin a new line
//! or control a terminal.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use levada_broker::loggers::{self, LogLevel, LogLevels};
use levada_security::audit::TARGET as AUDIT;
use tracing::Metadata;
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{Targets, filter_fn};
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use levada_terminal::colour;
use levada_terminal::escapes::{is_steering, quiet_json};
use levada_terminal::failure::Failure;

mod sink;
#[cfg(test)]
mod tests;

use self::sink::Sink;

/// The environment variable for the log levels.
const VARIABLE: &str = "LEVADA_LOG";

/// The logs of this process. Dropped, it waits until the audit log is written.
pub(crate) struct Logs {
    audit: Sink,
    audit_filter: Filter,
    lines: Arc<Lines>,
    /// The variable's directive for the audit log, if it has one.
    asked: Option<String>,
}

/// A filter that can be replaced.
type Filter = reload::Handle<Targets, Registry>;

/// The log on stderr in its two formats, one of which is enabled.
struct Lines {
    text: Filter,
    json: Filter,
    is_json: AtomicBool,
    /// Log directives that the process was started with.
    wanted: String,
}

/// Starts the log on stderr, as text and from `info` up unless `LEVADA_LOG` says otherwise. The
/// audit log is off unless it is named there, and also goes to stderr until [`Logs::audit_to`]
/// names a place.
pub(crate) fn start() -> Logs {
    let given = std::env::var(VARIABLE).unwrap_or_default();
    let fault = targets(&given).err();
    let is_usable = fault.is_none() && !given.trim().is_empty();
    let wanted = if is_usable { given } else { "info".to_owned() };
    let asked = wanted.contains(AUDIT).then(|| wanted.clone());
    let (audit_filter, audit_handle) = reload::Layer::new(filter(asked.as_deref().unwrap_or("off")));
    let (text_filter, text_handle) = reload::Layer::new(filter(&wanted));
    let (json_filter, json_handle) = reload::Layer::new(filter("off"));
    let is_audit = |metadata: &Metadata<'_>| metadata.target() == AUDIT;
    let audit = Sink::start();
    let audit_writer = audit.writer();
    let audit_layer = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(move || JsonLine(audit_writer()));
    let text_layer = tracing_subscriber::fmt::layer()
        .with_ansi(colour::on_stderr())
        .fmt_fields(debug_fn(write_field).delimited(" "))
        // A terminal that was closed takes no complaint about lost lines either.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    let json_layer = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .log_internal_errors(false)
        .with_writer(|| JsonLine(io::stderr()));
    let rest = move |metadata: &Metadata<'_>| !is_audit(metadata);
    let layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = vec![
        audit_layer.with_filter(filter_fn(is_audit)).with_filter(audit_filter).boxed(),
        text_layer.with_filter(filter_fn(rest)).with_filter(text_filter).boxed(),
        json_layer.with_filter(filter_fn(rest)).with_filter(json_filter).boxed(),
    ];
    tracing_subscriber::registry().with(layers).init();
    if let Some(fault) = fault {
        tracing::warn!(
            "{VARIABLE} has no effect: {fault}; use a level, or TARGET=LEVEL, separated by commas"
        );
    }
    let base = levels(&wanted);
    let lines = Lines { text: text_handle, json: json_handle, is_json: AtomicBool::new(false), wanted };
    let lines = Arc::new(lines);
    let changed = lines.clone();
    loggers::install(base, Box::new(move |directives| changed.show(directives)));
    Logs { audit, audit_filter: audit_handle, lines, asked }
}

/// Builds the filter from directives that were validated before.
fn filter(directives: &str) -> Targets {
    targets(directives).unwrap_or_default()
}

/// Reads directives: a level, `TARGET=LEVEL`, or a target of Levada's for all of its lines,
/// separated by commas.
fn targets(directives: &str) -> Result<Targets, String> {
    let given: Vec<&str> =
        directives.split(',').map(str::trim).filter(|directive| !directive.is_empty()).collect();
    // Without a directive there is no level; the parser takes the empty text for a name.
    if given.is_empty() {
        return Ok(Targets::new());
    }
    let is_level = |word: &str| LevelFilter::from_str(word).is_ok();
    let is_known = |word: &&str| word.contains('=') || word.starts_with("levada") || is_level(word);
    if let Some(unknown) = given.iter().find(|word| !is_known(word)) {
        return Err(format!("{unknown:?} is not a level (error, warn, info, debug, trace or off)"));
    }
    Targets::from_str(&given.join(",")).map_err(|error| error.to_string())
}

/// The levels that directives give to loggers. Directives of another form, such as span
/// directives, set no level.
fn levels(directives: &str) -> LogLevels {
    let level = |level: LevelFilter| match level {
        LevelFilter::ERROR => LogLevel::Error,
        LevelFilter::WARN => LogLevel::Warn,
        LevelFilter::INFO => LogLevel::Info,
        LevelFilter::DEBUG => LogLevel::Debug,
        LevelFilter::TRACE => LogLevel::Trace,
        _ => LogLevel::Off,
    };
    let mut levels = LogLevels::new();
    let of_targets = directives.split(',').filter(|directive| !directive.contains(['[', ']', '{', '}']));
    for targets in of_targets.filter_map(|directive| targets(directive).ok()) {
        levels.extend(targets.default_level().map(|found| (loggers::ROOT.to_owned(), level(found))));
        levels.extend(targets.iter().map(|(target, found)| (target.to_owned(), level(found))));
    }
    levels
}

impl Lines {
    /// Applies directives in addition to those of the start.
    fn show(&self, directives: &str) -> Result<(), String> {
        let all = match directives {
            "" => self.wanted.clone(),
            more => format!("{},{more}", self.wanted),
        };
        let fresh = targets(&all)?;
        let is_on = if self.is_json.load(Ordering::Relaxed) { &self.json } else { &self.text };
        is_on.reload(fresh).map_err(|error| error.to_string())
    }

    /// Switches to JSON, with the levels of the start.
    fn write_json(&self) -> Result<(), String> {
        self.is_json.store(true, Ordering::Relaxed);
        self.show("")?;
        self.text.reload(filter("off")).map_err(|error| error.to_string())
    }
}

impl Logs {
    /// Writes the log as JSON, one object a line (`levada.log.format`).
    pub(crate) fn write_json(&self) -> Result<(), Failure> {
        self.lines.write_json().map_err(|error| Failure::new(format!("levada.log.format: {error}")))
    }

    /// Writes the audit log to a file, or to stderr (`levada.audit.log`), independent of the
    /// environment.
    pub(crate) fn audit_to(&self, place: &str) -> Result<(), Failure> {
        let refused = |error: &dyn fmt::Display| Failure::new(format!("levada.audit.log: {place}: {error}"));
        if place != "stderr" {
            self.audit.write_to(Path::new(place)).map_err(|error| refused(&error))?;
        }
        let wanted = self.asked.clone().unwrap_or_else(|| format!("{AUDIT}=info"));
        self.audit_filter.reload(filter(&wanted)).map_err(|error| refused(&error))
    }
}

/// Writes one field of a line: the message without its name, any other field with its name.
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

/// Writes a line of JSON, which JSON's own rules allow to have characters that steer a terminal,
/// with these escaped as JSON has it.
struct JsonLine<W>(W);

impl<W: io::Write> io::Write for JsonLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(quiet_json(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
