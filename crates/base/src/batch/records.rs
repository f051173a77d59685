//! The records inside a batch: a borrowing iterator, and a validation that allocates no records.

use std::cell::RefCell;
use std::fmt;

use bytes::Bytes;

use super::builder::put_bytes;
use super::{BatchError, BatchView, NO_TIMESTAMP, varint};
use crate::compress::{self, Compression};

/// The most that the records of one batch may expand to, bytes. A batch of the default largest size
/// (1 MiB) that expands further is an attack or a mistake.
pub const MAX_EXPANDED: usize = 128 * 1024 * 1024;

/// One record. Key, value and headers share the expanded batch; taking one out copies nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Offset less the batch's base offset.
    pub offset_delta: i32,
    /// Timestamp less the batch's base timestamp, ms.
    pub timestamp_delta: i64,
    /// The key; absent is not empty.
    pub key: Option<Bytes>,
    /// The value; absent means a tombstone.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Headers,
}

/// The headers of one record in their original order, duplicates included. They stay encoded: a
/// header may have two bytes, and a record as many headers as fit into an expanded batch.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    encoded: Bytes,
    count: usize,
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// UTF-8 by convention; not checked.
    pub key: &'a [u8],
    /// The value; absent is not empty.
    pub value: Option<&'a [u8]>,
}

impl Headers {
    /// Number of headers.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if the record has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Decodes one header after the other.
    pub fn iter(&self) -> HeaderIter<'_> {
        HeaderIter { rest: &self.encoded, left: self.count }
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = Header<'a>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

impl<'a> FromIterator<Header<'a>> for Headers {
    fn from_iter<I: IntoIterator<Item = Header<'a>>>(headers: I) -> Self {
        let (mut encoded, mut count) = (Vec::new(), 0);
        for header in headers {
            put_bytes(&mut encoded, Some(header.key));
            put_bytes(&mut encoded, header.value);
            count += 1;
        }
        Self { encoded: encoded.into(), count }
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// Iterator over [`Headers`].
#[derive(Clone, Debug)]
pub struct HeaderIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        // The layout of the record has walked these headers already.
        let (key, value) = take_header(&mut self.rest).ok()?;
        Some(Header { key, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for HeaderIter<'_> {}

/// The records of one batch. Ends after the first error. A clone shares the expanded batch.
#[derive(Clone, Debug)]
pub struct Records {
    expanded: Bytes,
    at: usize,
    next: i32,
    count: i32,
}

/// The records of the batch at the start of `bytes`, decompressed once (at most [`MAX_EXPANDED`]
/// bytes) and then borrowed.
///
/// # Errors
/// A malformed header, or records that do not expand. Later errors come from the iterator.
pub fn records(bytes: &[u8]) -> Result<Records, BatchError> {
    records_within(bytes, MAX_EXPANDED)
}

/// Like [`records()`], with a limit of bytes.
///
/// # Errors
/// Same as [`records()`].
pub fn records_within(bytes: &[u8], expanded_max: usize) -> Result<Records, BatchError> {
    let view = BatchView::parse(bytes)?;
    let mut expanded = Vec::new();
    compress::decompress(view.compression()?, view.payload(), &mut expanded, expanded_max)?;
    Ok(Records { expanded: expanded.into(), at: 0, next: 0, count: view.record_count() })
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Result<Record, BatchError>> {
        let mut rest = &self.expanded[self.at..];
        if self.next >= self.count {
            let index = self.next;
            self.at = self.expanded.len();
            return (!rest.is_empty())
                .then_some(Err(BatchError::Record { index, what: "bytes after the last" }));
        }
        let layout = Layout::take(&mut rest);
        let item = match layout {
            Ok(layout) => {
                self.at = self.expanded.len() - rest.len();
                self.next += 1;
                Ok(self.build(&layout))
            }
            Err(what) => {
                let index = self.next;
                self.at = self.expanded.len();
                self.next = self.count;
                Err(BatchError::Record { index, what })
            }
        };
        Some(item)
    }
}

impl Records {
    /// Bytes of all records of the batch, expanded.
    pub fn expanded_bytes(&self) -> usize {
        self.expanded.len()
    }

    fn build(&self, layout: &Layout<'_>) -> Record {
        let share = |part: &[u8]| self.expanded.slice_ref(part);
        let count = usize::try_from(layout.header_count).unwrap_or(0);
        Record {
            offset_delta: layout.offset_delta,
            timestamp_delta: layout.timestamp_delta,
            key: layout.key.map(share),
            value: layout.value.map(share),
            headers: Headers { encoded: share(layout.headers), count },
        }
    }
}

/// Bounds of a batch's records: of their timestamps, and of their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The earliest timestamp; [`NO_TIMESTAMP`] if no record has one.
    pub earliest: i64,
    /// The latest timestamp; [`NO_TIMESTAMP`] if no record has one.
    pub latest: i64,
    /// Bytes of the largest record, expanded, without the field of its length.
    pub largest: usize,
}

impl Survey {
    const NONE: Self = Self { earliest: NO_TIMESTAMP, latest: NO_TIMESTAMP, largest: 0 };

    fn add(&mut self, timestamp: i64, bytes: usize) {
        self.largest = self.largest.max(bytes);
        if timestamp == NO_TIMESTAMP {
            return;
        }
        self.latest = self.latest.max(timestamp);
        self.earliest = if self.earliest == NO_TIMESTAMP { timestamp } else { self.earliest.min(timestamp) };
    }
}

/// Decodes every record of a batch and refuses a false count, offset or length.
pub(super) fn walk(view: &BatchView<'_>, expanded_max: usize) -> Result<Survey, BatchError> {
    expanded(view, expanded_max, |payload| walk_payload(payload, view))?
}

fn walk_payload(mut rest: &[u8], view: &BatchView<'_>) -> Result<Survey, BatchError> {
    let (count, last_offset_delta) = (view.record_count(), view.last_offset_delta());
    let base_timestamp = view.base_timestamp();
    let mut survey = Survey::NONE;
    let mut found = 0;
    while found < count && !rest.is_empty() {
        let layout = Layout::take(&mut rest).map_err(|what| BatchError::Record { index: found, what })?;
        if layout.offset_delta != found {
            return Err(BatchError::Record { index: found, what: "offset delta" });
        }
        survey.add(base_timestamp.wrapping_add(layout.timestamp_delta), layout.length);
        found += 1;
    }
    if found < count {
        return Err(BatchError::Count { count, last_offset_delta, found: Some(found) });
    }
    if !rest.is_empty() {
        return Err(BatchError::Record { index: count, what: "bytes after the last" });
    }
    Ok(survey)
}

thread_local! {
    static EXPANDED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Maximum number of bytes of a buffer that a thread keeps; one large batch does not hold memory
/// for ever.
const KEEP: usize = 4 * 1024 * 1024;

fn expanded<T>(
    view: &BatchView<'_>,
    expanded_max: usize,
    with: impl FnOnce(&[u8]) -> T,
) -> Result<T, BatchError> {
    let codec = view.compression()?;
    if codec == Compression::None {
        return Ok(with(view.payload()));
    }
    EXPANDED.with_borrow_mut(|buffer| {
        let outcome = compress::decompress(codec, view.payload(), buffer, expanded_max);
        let outcome = outcome.map(|()| with(buffer)).map_err(BatchError::from);
        if buffer.capacity() > KEEP {
            *buffer = Vec::new();
        }
        outcome
    })
}

/// Positions of the parts of one record.
struct Layout<'a> {
    /// Bytes of the record after this field.
    length: usize,
    offset_delta: i32,
    timestamp_delta: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    header_count: i32,
    headers: &'a [u8],
}

impl<'a> Layout<'a> {
    fn take(rest: &mut &'a [u8]) -> Result<Self, &'static str> {
        let length = varint::take_i32(rest).ok_or("length")?;
        let length = usize::try_from(length).map_err(|_| "length")?;
        let (mut body, tail) = rest.split_at_checked(length).ok_or("length")?;
        *rest = tail;
        let (_attributes, after) = body.split_first().ok_or("attributes")?;
        body = after;
        let timestamp_delta = varint::take_i64(&mut body).ok_or("timestamp")?;
        let offset_delta = varint::take_i32(&mut body).ok_or("offset delta")?;
        let key = take_bytes(&mut body).ok_or("key")?;
        let value = take_bytes(&mut body).ok_or("value")?;
        let header_count = varint::take_i32(&mut body).filter(|count| *count >= 0).ok_or("header count")?;
        let headers = body;
        for _ in 0..header_count {
            take_header(&mut body)?;
        }
        if !body.is_empty() {
            return Err("bytes after the headers");
        }
        Ok(Layout { length, offset_delta, timestamp_delta, key, value, header_count, headers })
    }
}

fn take_header<'a>(rest: &mut &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>), &'static str> {
    let key = take_bytes(rest).flatten().ok_or("header key")?;
    let value = take_bytes(rest).ok_or("header value")?;
    Ok((key, value))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = varint::take_i32(rest)?;
    if length < 0 {
        return (length == -1).then_some(None);
    }
    let (part, tail) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = tail;
    Some(Some(part))
}
