//! The destination of the audit log: a separate thread writes the lines, so that no client waits
//! for a disk.
//!
//! A file that was moved away or removed, as by logrotate, is created again. Lines beyond a queue
//! of some thousands are lost, and so are lines that cannot be written; the next line contains
//! their number.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use levada_process::tasks::guarded;

/// Maximum number of lines that wait to be written.
const WAITING_MAX: usize = 8192;

/// The writing thread and its end.
pub(super) struct Sink {
    writer: Writer,
    thread: Option<JoinHandle<()>>,
}

/// Writer of the tracing layer; one call is one line.
#[derive(Clone)]
pub(super) struct Writer {
    orders: SyncSender<Order>,
    lost: Arc<AtomicU64>,
}

enum Order {
    Line(Vec<u8>),
    /// Writes further lines to this file.
    Place(Target),
    Stop,
    /// Makes the writing thread panic.
    #[cfg(test)]
    Panic,
}

struct Target {
    path: PathBuf,
    file: File,
}

impl Sink {
    /// Starts the thread, which writes to stderr.
    pub(super) fn start() -> Self {
        let (orders, received) = sync_channel(WAITING_MAX);
        let writer = Writer { orders, lost: Arc::default() };
        let lost = writer.lost.clone();
        let work = move || {
            let mut place = Place::default();
            // The line at which the thread panicked is lost; the next lines are written.
            while guarded("the thread of the audit log", || write(&mut place, &received, &lost)).is_err() {}
        };
        let thread = thread::Builder::new().name("audit".to_owned()).spawn(work);
        // Without a thread the lines count as lost.
        Self { writer, thread: thread.ok() }
    }

    pub(super) fn writer(&self) -> impl Fn() -> Writer + use<> {
        let writer = self.writer.clone();
        move || writer.clone()
    }

    /// Switches to this file: further lines are appended to it.
    pub(super) fn write_to(&self, path: &Path) -> io::Result<()> {
        let target = Target { path: path.to_owned(), file: open(path)? };
        self.writer.orders.send(Order::Place(target)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // A thread that has ended needs no order.
        let _ = self.writer.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.orders.try_send(Order::Line(line.to_vec()))
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Destination of the lines.
#[derive(Default)]
struct Place {
    /// Destination of the lines; `None` for stderr.
    target: Option<Target>,
    /// True if the log has a line about the failure.
    is_told: bool,
    /// True if the last line of the file is a part of one.
    is_torn: bool,
}

fn write(place: &mut Place, orders: &Receiver<Order>, lost: &AtomicU64) {
    while let Ok(order) = orders.recv() {
        let line = match order {
            Order::Line(line) => line,
            Order::Place(target) => {
                (place.target, place.is_torn) = (Some(target), false);
                continue;
            }
            Order::Stop => {
                // A failure has its line of the log.
                let _ = place.tell_lost(lost);
                return;
            }
            #[cfg(test)]
            Order::Panic => panic!("on purpose"),
        };
        let written = place.tell_lost(lost).and_then(|()| place.put(&line));
        if written.is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
        }
        if let (Err(error), Some(Target { path, .. }), false) = (&written, &place.target, place.is_told) {
            tracing::error!(path = %path.display(), %error, "cannot write the audit log; lines are lost until writing succeeds");
        }
        place.is_told = written.is_err();
    }
}

impl Place {
    /// Writes the number of lost lines, if there are any; they stay counted until that succeeds.
    fn tell_lost(&mut self, lost: &AtomicU64) -> io::Result<()> {
        let count = lost.load(Ordering::Relaxed);
        if count > 0 {
            let line = format!("{{\"event\":\"lost\",\"lines\":{count},\"target\":\"levada::audit\"}}\n");
            self.put(line.as_bytes())?;
            lost.fetch_sub(count, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes a line. A line that an earlier failure has cut short ends before it.
    fn put(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(Target { path, file }) = &mut self.target else {
            return io::stderr().lock().write_all(line);
        };
        if !is_there(path, file) {
            (*file, self.is_torn) = (open(path)?, false);
        }
        let end: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let bytes = [end, line].concat();
        let mut left = &bytes[..];
        while !left.is_empty() {
            match file.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_torn |= left.len() < bytes.len();
                    return Err(error);
                }
            }
        }
        self.is_torn = false;
        Ok(())
    }
}

/// True if the path still leads to the file.
fn is_there(path: &Path, file: &File) -> bool {
    let id = |found: io::Result<std::fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    let named = id(std::fs::metadata(path));
    named.is_some() && named == id(file.metadata())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

#[cfg(test)]
mod tests;
