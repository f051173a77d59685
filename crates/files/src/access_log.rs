//! The access log: the shards format the lines, and a separate thread writes them.
//!
//! A disk that is too slow or full loses lines, which are counted, and delays no response. A reload
//! does not wait for the disk, and a stop waits for a bounded time.

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use jiff::Timestamp;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde::Serialize;

use crate::request::Head;
use crate::socket::Peer;
use crate::stats::Stats;

/// The form of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The Common Log Format.
    Common,
    /// The Common Log Format with referer and user agent.
    #[default]
    Combined,
    /// A JSON object.
    Json,
}

/// Destination and form of lines.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// A file, to which is appended; `-` is standard output.
    pub path: PathBuf,
    /// Form of a line.
    pub form: LogFormat,
}

/// Bytes of lines that a shard collects before it passes them on.
const BLOCK_BYTES: usize = 32 << 10;

/// Maximum number of blocks of all shards that may wait for the disk.
const BLOCKS_MAX: usize = 128;

enum Message {
    /// A number of lines.
    Lines(Vec<u8>, u64),
    Reopen,
}

/// The writing thread.
#[derive(Debug)]
pub(crate) struct Writer {
    sender: SyncSender<Message>,
    form: LogFormat,
    thread: JoinHandle<()>,
    /// True if the thread opens the file again before the next message.
    reopens: Arc<AtomicBool>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Writer {
    /// Opens the log and starts the thread.
    pub(crate) fn start(options: &LogOptions, stats: Arc<Stats>) -> io::Result<Self> {
        let path = options.path.clone();
        let sink = open(&path)?;
        let (sender, receiver) = sync_channel(BLOCKS_MAX);
        let (end, ended) = sync_channel(0);
        let reopens = Arc::<AtomicBool>::default();
        let asked = reopens.clone();
        let thread = std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            let _end: SyncSender<()> = end;
            write((&receiver, &asked), sink, (&path, &stats));
        })?;
        Ok(Self { sender, form: options.form, thread, reopens, ended })
    }

    /// The handle of one shard.
    pub(crate) fn handle(&self, stats: Arc<Stats>) -> LogHandle {
        let (sender, form) = (self.sender.clone(), self.form);
        LogHandle { sender, form, stats, lines: RefCell::default(), count: Cell::new(0) }
    }

    /// Reopens the file under its name, for log rotation. Queued lines go to the old file, or to
    /// the new one if the queue is full.
    pub(crate) fn reopen(&self) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(Message::Reopen) {
            self.reopens.store(true, Ordering::Release);
        }
    }

    /// Waits until everything is written, for at most this time; the shards' ends must be dropped.
    pub(crate) fn finish(self, limit: Duration) {
        drop(self.sender);
        if self.ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(?limit, "the access log accepts no lines; the last lines are lost");
            return;
        }
        if self.thread.join().is_err() {
            tracing::error!("the access log thread panicked");
        }
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    // A pipe without a reader would keep the caller waiting, where it fails now. Writes may wait.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file: File = OpenOptions::new().create(true).append(true).custom_flags(nonblocking).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(Box::new(file))
}

fn write(
    (messages, reopens): (&Receiver<Message>, &AtomicBool),
    mut sink: Box<dyn Write + Send>,
    (path, stats): (&Path, &Stats),
) {
    let mut failing = false;
    while let Ok(message) = messages.recv() {
        let is_asked = reopens.swap(false, Ordering::Acquire) || matches!(message, Message::Reopen);
        let mut outcome = if is_asked { open(path).map(|opened| sink = opened) } else { Ok(()) };
        if let Message::Lines(lines, count) = message {
            let written = sink.write_all(&lines).and_then(|()| sink.flush());
            outcome = outcome.and(written.inspect_err(|_| stats.log_lines_dropped(count)));
        }
        match outcome {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::error!(path = %path.display(), %error, "cannot write the access log; lines are lost");
            }
            Err(_) => {}
        }
    }
}

/// Access of one shard to the log.
#[derive(Debug)]
pub(crate) struct LogHandle {
    sender: SyncSender<Message>,
    form: LogFormat,
    stats: Arc<Stats>,
    lines: RefCell<Vec<u8>>,
    count: Cell<u64>,
}

/// Part of a line about the request, empty if it was not valid; copied before the response, which
/// may outlive the request's bytes.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    method: String,
    target: String,
    is_1_1: bool,
    host: Option<String>,
    referer: Option<String>,
    agent: Option<String>,
}

impl Draft {
    pub(crate) fn of(head: &Head<'_, '_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            method: head.method_name.to_owned(),
            target: text(head.target),
            is_1_1: head.is_1_1,
            host: head.host().map(text),
            referer: head.referer().map(text),
            agent: head.user_agent().map(text),
        }
    }
}

/// Part of a line about the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Result {
    pub(crate) peer: Peer,
    pub(crate) status: StatusCode,
    /// Number of body bytes sent.
    pub(crate) bytes: u64,
    pub(crate) taken: Duration,
    pub(crate) now: SystemTime,
}

#[derive(Serialize)]
struct Object<'a> {
    time: String,
    remote: String,
    method: &'a str,
    target: &'a str,
    protocol: &'a str,
    host: Option<&'a str>,
    status: u16,
    bytes: u64,
    seconds: f64,
    referer: Option<&'a str>,
    agent: Option<&'a str>,
}

impl LogHandle {
    /// Adds a line.
    pub(crate) fn note(&self, draft: &Draft, result: Result) {
        let mut lines = self.lines.borrow_mut();
        write_line(&mut lines, self.form, draft, result);
        self.count.set(self.count.get() + 1);
        if lines.len() >= BLOCK_BYTES {
            drop(lines);
            self.pass_on();
        }
    }

    /// Passes on the collected lines.
    pub(crate) fn pass_on(&self) {
        let lines = self.lines.take();
        let count = self.count.replace(0);
        if !lines.is_empty() && self.sender.try_send(Message::Lines(lines, count)).is_err() {
            self.stats.log_lines_dropped(count);
        }
    }
}

impl Drop for LogHandle {
    fn drop(&mut self) {
        self.pass_on();
    }
}

fn write_line(lines: &mut Vec<u8>, form: LogFormat, draft: &Draft, result: Result) {
    let protocol = if draft.is_1_1 { "HTTP/1.1" } else { "HTTP/1.0" };
    if form == LogFormat::Json {
        let object = Object {
            time: time(result.now, "%Y-%m-%dT%H:%M:%S%.3fZ"),
            remote: result.peer.to_string(),
            method: &draft.method,
            target: &draft.target,
            protocol,
            host: draft.host.as_deref(),
            status: result.status.as_u16(),
            bytes: result.bytes,
            seconds: result.taken.as_secs_f64(),
            referer: draft.referer.as_deref(),
            agent: draft.agent.as_deref(),
        };
        let text = serde_json::to_string(&object).expect("an object of texts and numbers");
        // Control characters that JSON permits and terminals interpret.
        for letter in text.chars() {
            match letter {
                '\u{7f}'..='\u{9f}' => write!(lines, "\\u{:04x}", u32::from(letter)),
                _ => write!(lines, "{letter}"),
            }
            .expect("a Vec takes all");
        }
        lines.push(b'\n');
        return;
    }
    let put =
        |lines: &mut Vec<u8>, text: std::fmt::Arguments<'_>| lines.write_fmt(text).expect("a Vec takes all");
    put(lines, format_args!("{} - - [{}] \"", result.peer, time(result.now, "%d/%b/%Y:%H:%M:%S +0000")));
    escape(lines, &draft.method);
    lines.push(b' ');
    escape(lines, &draft.target);
    put(lines, format_args!(" {protocol}\" {} {}", result.status.as_str(), result.bytes));
    if form == LogFormat::Combined {
        for value in [&draft.referer, &draft.agent] {
            lines.extend_from_slice(b" \"");
            escape(lines, value.as_deref().unwrap_or("-"));
            lines.push(b'"');
        }
    }
    lines.push(b'\n');
}

fn time(now: SystemTime, form: &str) -> String {
    // Times that no calendar has do not come from a clock.
    Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH).strftime(form).to_string()
}

/// Writes a value so that it can end neither its quotes nor its line.
fn escape(lines: &mut Vec<u8>, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => write!(lines, "\\x{byte:02X}").expect("a Vec takes all"),
            _ => lines.push(byte),
        }
    }
}

#[cfg(test)]
mod tests;
