//! An open file with the data that responses need: descriptor, state, constant header fields, and
//! the bytes of a small file.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use httpdate::HttpDate;
use rustix::io::{Errno, ReadWriteFlags};

use crate::condition::{self, Validators};
use crate::encoding::Encoding;
use crate::media;
use crate::range::Span;
use crate::root::{FileVersion, Opened};
use crate::site::{FoundFile, Site};

/// A file of up to this size is read whole and leaves together with its head.
pub(crate) const SMALL_BYTES: u64 = 16 << 10;

/// A file that was changed this lately may change again without a new time of modification: its
/// bytes are not kept.
const SETTLED: Duration = Duration::from_millis(100);

/// Time for which a file counts as resident after it was found wholly in memory.
const RESIDENT_AGE: Duration = Duration::from_secs(1);

/// A response head that is valid for one second, without anything that depends on the request.
#[derive(Debug, Clone)]
pub(crate) struct DatedHead {
    pub(crate) second: u64,
    pub(crate) bytes: Bytes,
}

/// Properties of a file that the fields of its head contain.
#[derive(Clone, Copy)]
struct Terms<'a> {
    /// True if other forms of the file may be sent to other clients.
    varies: bool,
    /// `Cache-Control`.
    cache: Option<&'a str>,
    /// The time of the response.
    date: SystemTime,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) file: Arc<File>,
    pub(crate) file_version: Cell<FileVersion>,
    etag: String,
    modified: Option<SystemTime>,
    pub(crate) media: String,
    /// ETag, Last-Modified, Vary and Cache-Control: the fields of a 304.
    pub(crate) version_fields: Vec<u8>,
    /// True if other forms of the file may be sent to other clients.
    pub(crate) varies: bool,
    /// Content-Encoding and Accept-Ranges.
    pub(crate) body_fields: Vec<u8>,
    body: RefCell<Option<CachedBytes>>,
    pub(crate) head: RefCell<Option<DatedHead>>,
    /// Start of the last response that found the whole file in memory.
    resident: Cell<Option<Instant>>,
}

/// The bytes of a small file, counted while they are kept.
#[derive(Debug)]
struct CachedBytes {
    bytes: Bytes,
    counted: Rc<Cell<u64>>,
}

impl Drop for CachedBytes {
    fn drop(&mut self) {
        self.counted.set(self.counted.get() - self.bytes.len() as u64);
    }
}

/// The forms of one file that were found together.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) plain: Rc<Entry>,
    pub(crate) encoded: [Option<Rc<Entry>>; Encoding::ALL.len()],
    /// Time of the last lookup of the path.
    pub(crate) looked_up: Cell<Instant>,
    /// Time of the last request.
    pub(crate) used: Cell<Instant>,
}

impl Resource {
    /// Creates an entry for the found files, with the entries of `before` that are still the same
    /// files. `date` is the time of the response, and `now` the same time on another clock.
    pub(crate) fn new(
        site: &Site,
        found: FoundFile,
        before: Option<&Self>,
        (now, date): (Instant, SystemTime),
    ) -> Self {
        let FoundFile { path, plain, encoded } = found;
        let (media, cache) = (media::of(&path), site.cache_control(&path));
        let terms = Terms { varies: site.options().precompressed, cache, date };
        let make = |opened: Opened, encoding: Option<Encoding>, old: Option<&Rc<Entry>>| match old {
            Some(old) if old.is_version(&opened.file_version) => {
                if old.file_version.replace(opened.file_version) != opened.file_version {
                    // Perhaps written in place, and its former time restored.
                    old.forget();
                }
                old.clone()
            }
            _ => Rc::new(Entry::new(opened, (&media, encoding), terms)),
        };
        let plain = make(plain, None, before.map(|before| &before.plain));
        let mut index = 0;
        let encoded = encoded.map(|opened| {
            let old = before.and_then(|before| before.encoded[index].as_ref());
            let entry = opened.map(|opened| make(opened, Some(Encoding::ALL[index]), old));
            index += 1;
            entry
        });
        Self { plain, encoded, looked_up: Cell::new(now), used: Cell::new(now) }
    }
}

impl Entry {
    /// Path of the file, as the kernel names it now; for messages.
    pub(crate) fn path(&self) -> PathBuf {
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        std::fs::read_link(&link).unwrap_or_else(|_| PathBuf::from(link))
    }

    fn new(
        opened: Opened,
        (media, encoding): (&str, Option<Encoding>),
        Terms { varies, cache, date }: Terms<'_>,
    ) -> Self {
        let Opened { file, file_version, .. } = opened;
        let modified = file_version.has_time().then(|| condition::writable_time(file_version.modified.0));
        let (seconds, rest) = if modified.is_some() { file_version.modified } else { file_version.changed };
        let nanos = i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let etag = format!("\"{:x}-{:x}-{nanos:x}\"", file_version.identity.1, file_version.len);
        let mut version_fields = Vec::new();
        let mut field = |name: &str, value: &dyn std::fmt::Display| {
            write!(version_fields, "{name}: {value}\r\n").expect("a Vec takes all");
        };
        field("ETag", &etag);
        // Never later than Date (RFC 9110, 8.8.2.1). Conditions go by the time of the file.
        if let Some(modified) = modified {
            field("Last-Modified", &HttpDate::from(modified.min(date)));
        }
        if varies {
            field("Vary", &"Accept-Encoding");
        }
        if let Some(value) = cache {
            field("Cache-Control", &value);
        }
        let mut body_fields = Vec::new();
        if let Some(encoding) = encoding {
            write!(body_fields, "Content-Encoding: {}\r\n", encoding.token()).expect("a Vec takes all");
        }
        body_fields.extend_from_slice(b"Accept-Ranges: bytes\r\n");
        Self {
            file: Arc::new(file),
            file_version: Cell::new(file_version),
            etag,
            modified,
            media: media.to_owned(),
            version_fields,
            varies,
            body_fields,
            body: RefCell::default(),
            head: RefCell::default(),
            resident: Cell::default(),
        }
    }

    /// Length of the file, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.file_version.get().len
    }

    /// True if the entity tag of this entry is that of `version`.
    fn is_version(&self, version: &FileVersion) -> bool {
        let own = self.file_version.get();
        own.same_bytes(version) && (own.has_time() || own.changed == version.changed)
    }

    /// Validators for conditions.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators { etag: self.etag.as_bytes(), modified: self.modified }
    }

    /// True if neither the bytes nor the name of the file have changed since the lookup.
    pub(crate) fn is_current(&self) -> bool {
        FileVersion::now(&self.file).is_ok_and(|now| now == self.file_version.get())
    }

    /// True if the bytes are the version that the head of the response describes.
    pub(crate) fn is_intact(&self) -> bool {
        FileVersion::now(&self.file).is_ok_and(|now| now.same_bytes(&self.file_version.get()))
    }

    /// True if all of the file was in memory less than a second ago. The kernel checks each page
    /// for this question, at a fifteenth of the cost of sending the page.
    pub(crate) fn is_resident(&self, now: Instant) -> bool {
        self.resident.get().is_some_and(|since| now.saturating_duration_since(since) < RESIDENT_AGE)
    }

    /// Records that a response that began at `begun` has found the whole file in memory.
    pub(crate) fn found_resident(&self, begun: Instant) {
        self.resident.set(Some(begun));
    }

    /// The bytes of a small file that are kept.
    pub(crate) fn kept(&self) -> Option<Bytes> {
        self.body.borrow().as_ref().map(|kept| kept.bytes.clone())
    }

    /// Keeps the bytes of a small file and counts them, unless it was changed a moment before they
    /// were read.
    pub(crate) fn keep(&self, bytes: &Bytes, counted: &Rc<Cell<u64>>, now: SystemTime) {
        let (seconds, nanos) = self.file_version.get().changed;
        let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
        if UNIX_EPOCH + changed + SETTLED < now && self.body.borrow().is_none() {
            counted.set(counted.get() + bytes.len() as u64);
            *self.body.borrow_mut() = Some(CachedBytes { bytes: bytes.clone(), counted: counted.clone() });
        }
    }

    /// Drops the bytes that are kept.
    fn forget(&self) {
        *self.body.borrow_mut() = None;
    }

    /// Reads a range without waiting for the disk; none if it is not all in memory. Waits on a file
    /// system without such reads.
    ///
    /// # Errors
    /// The file is shorter than its state, or cannot be read.
    pub(crate) fn read(&self, span: Span) -> io::Result<Option<Bytes>> {
        self.read_by(span, |into, offset| {
            let mut slices = [IoSliceMut::new(into)];
            match rustix::io::preadv2(&self.file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP) => rustix::io::pread(&self.file, into, offset),
                outcome => outcome,
            }
        })
    }

    /// Reads a range, and waits for the disk if it is not in memory.
    ///
    /// # Errors
    /// Same as [`Entry::read`].
    pub(crate) fn read_waiting(&self, span: Span) -> io::Result<Bytes> {
        let read = self.read_by(span, |into, offset| rustix::io::pread(&self.file, into, offset))?;
        read.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn read_by(
        &self,
        span: Span,
        mut read: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
    ) -> io::Result<Option<Bytes>> {
        let mut bytes = vec![0; usize::try_from(span.len()).unwrap_or(usize::MAX)];
        let mut filled = 0;
        while filled < bytes.len() {
            match read(&mut bytes[filled..], span.start + filled as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Some(bytes.into()))
    }
}

#[cfg(test)]
mod tests;
