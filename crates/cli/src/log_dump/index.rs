//! Indexes: entries of fixed size in ascending order, checked against their segment.

use std::collections::BTreeMap;
use std::path::Path;

use levada_base::batch::BatchView;
use levada_log::check::{Batches, Next};
use levada_log::disk::RealDisk;
use levada_terminal::failure::Failure;
use levada_terminal::output::counted;
use serde_json::{Value, json};

use super::report::{Report, Verdict};
use super::{base_offset, bytes, unreadable};

const OFFSET_ENTRY: usize = 8;
const TIME_ENTRY: usize = 12;
const TRANSACTION_ENTRY: usize = 34;

/// Offset index: offset from the base (4), position in the segment (4).
pub(super) fn dump_offsets(path: &Path, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    let content = bytes(path)?;
    let base = base_offset(path).unwrap_or(0);
    let segment = batches_of(path)?;
    let mut last: Option<(i64, i64)> = None;
    let mut damage = None;
    let (entries, cut) = entries(&content, OFFSET_ENTRY);
    for (at, entry) in entries {
        let (offset, position) = (base + i64::from(i32_at(entry, 0)), i64::from(i32_at(entry, 4)));
        let rises = last.is_none_or(|last| offset > last.0 && position > last.1);
        let wrong = match &segment {
            _ if !rises => Some(format!("entry {offset} at {position} is not above the previous entry")),
            Some(segment) => misplaced(segment, offset, position),
            None => None,
        };
        row(report, &[("offset", json!(offset)), ("position", json!(position))], wrong.as_deref())?;
        damage = damage.or(wrong.map(|what| (at, what)));
        last = Some((offset, position));
    }
    Ok(verdict(damage, cut, &content, OFFSET_ENTRY))
}

/// Time index: timestamp (8), offset from the base (4).
pub(super) fn dump_times(path: &Path, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    let content = bytes(path)?;
    let base = base_offset(path).unwrap_or(0);
    let end = batches_of(path)?.and_then(|batches| batches.values().map(|batch| batch.last_offset).max());
    let mut last: Option<(i64, i64)> = None;
    let mut damage = None;
    let (entries, cut) = entries(&content, TIME_ENTRY);
    for (at, entry) in entries {
        let (timestamp, offset) = (i64_at(entry, 0), base + i64::from(i32_at(entry, 8)));
        let rises = last.is_none_or(|last| timestamp > last.0 && offset >= last.1);
        let wrong = match end {
            _ if !rises => Some(format!("entry {timestamp} for {offset} is not above the previous entry")),
            Some(end) if offset > end => {
                Some(format!("offset {offset} is above the last offset of the segment, {end}"))
            }
            _ => None,
        };
        row(report, &[("timestamp", json!(timestamp)), ("offset", json!(offset))], wrong.as_deref())?;
        damage = damage.or(wrong.map(|what| (at, what)));
        last = Some((timestamp, offset));
    }
    Ok(verdict(damage, cut, &content, TIME_ENTRY))
}

/// Index of aborted transactions: version (2), producer, first, last and last stable offset (8
/// each).
pub(super) fn dump_transactions(path: &Path, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    let content = bytes(path)?;
    let mut damage = None;
    let (chunks, rest) = chunks(&content, TRANSACTION_ENTRY);
    for (at, entry) in chunks {
        let version = i16::from_be_bytes([entry[0], entry[1]]);
        let (first, last) = (i64_at(entry, 10), i64_at(entry, 18));
        let wrong = match version {
            0 if first <= last => None,
            0 => Some(format!("a transaction from {first} to {last}")),
            other => Some(format!("version {other} is unknown")),
        };
        let fields = [
            ("producer_id", json!(i64_at(entry, 2))),
            ("first_offset", json!(first)),
            ("last_offset", json!(last)),
            ("last_stable_offset", json!(i64_at(entry, 26))),
        ];
        row(report, &fields, wrong.as_deref())?;
        damage = damage.or(wrong.map(|what| (at, what)));
    }
    Ok(verdict(damage, rest, &content, TRANSACTION_ENTRY))
}

/// Range of a batch in the segment, to which an index entry may point.
struct Span {
    base_offset: i64,
    last_offset: i64,
}

/// The batches of the segment of an index by position, if it exists. A damaged segment ends at the
/// damage.
fn batches_of(index: &Path) -> Result<Option<BTreeMap<i64, Span>>, Failure> {
    let path = index.with_extension("log");
    if !path.is_file() {
        return Ok(None);
    }
    let mut segment = Batches::open(&RealDisk, &path).map_err(|error| unreadable(&path, &error))?;
    let mut batches = BTreeMap::new();
    while let Next::Batch { at, bytes } = segment.next_batch().map_err(|error| unreadable(&path, &error))? {
        if let Ok(view) = BatchView::parse(bytes) {
            let span = Span { base_offset: view.base_offset(), last_offset: view.last_offset() };
            batches.insert(i64::try_from(at).unwrap_or(i64::MAX), span);
        }
    }
    Ok(Some(batches))
}

fn misplaced(batches: &BTreeMap<i64, Span>, offset: i64, position: i64) -> Option<String> {
    match batches.get(&position) {
        None => Some(format!("no batch begins at {position} of the segment")),
        Some(span) if offset < span.base_offset || offset > span.last_offset => {
            let (base, last) = (span.base_offset, span.last_offset);
            Some(format!("offset {offset} is not in the batch at {position}, which has {base} to {last}"))
        }
        Some(_) => None,
    }
}

fn row(report: &mut Report<'_>, fields: &[(&str, Value)], wrong: Option<&str>) -> Result<(), Failure> {
    let mut fields = fields.to_vec();
    if let Some(wrong) = wrong {
        fields.push(("wrong", json!(wrong)));
    }
    report.row("entry", &fields)
}

/// Entries with their positions, and bytes after the last whole one. Indexes of open segments are
/// allocated ahead, so trailing entries of zeros are not entries; the first may really be all zero.
fn entries(content: &[u8], size: usize) -> (impl Iterator<Item = (u64, &[u8])>, usize) {
    let (all, rest) = chunks(content, size);
    let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last / size + 1);
    let used = if content.len() == size { 1 } else { used };
    (all.take(used), rest)
}

fn chunks(content: &[u8], size: usize) -> (impl Iterator<Item = (u64, &[u8])>, usize) {
    let whole =
        content.chunks_exact(size).enumerate().map(move |(index, entry)| ((index * size) as u64, entry));
    (whole, content.len() % size)
}

fn verdict(damage: Option<(u64, String)>, cut: usize, content: &[u8], size: usize) -> Verdict {
    let count =
        if size == TRANSACTION_ENTRY { content.len() / size } else { entries(content, size).0.count() };
    let end = (content.len() - cut) as u64;
    match damage {
        Some((at, what)) => Verdict::damaged(at, what),
        None if cut > 0 => Verdict::damaged(end, format!("{cut} bytes after the last whole entry of {size}")),
        None => Verdict::Sound(counted(count as u64, "entry", "entries")),
    }
}

fn i32_at(entry: &[u8], at: usize) -> i32 {
    entry[at..].first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes))
}

fn i64_at(entry: &[u8], at: usize) -> i64 {
    entry[at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}
