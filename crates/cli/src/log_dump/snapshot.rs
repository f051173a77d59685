//! Producer snapshots: version (2), checksum of the rest (4), count (4), entries of 46 bytes.

use std::path::Path;

use serde_json::json;

use super::bytes;
use super::report::{Report, Verdict};
use levada_terminal::failure::Failure;
use levada_terminal::output::counted;

const HEADER: usize = 10;
const CHECKED_FROM: usize = 6;
const ENTRY: usize = 46;

pub(super) fn dump(path: &Path, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    let content = bytes(path)?;
    let Some(header) = content.first_chunk::<HEADER>() else {
        return Ok(Verdict::damaged(0, format!("cut short: {} of {HEADER} bytes", content.len())));
    };
    let version = i16::from_be_bytes([header[0], header[1]]);
    if version != 1 {
        return Ok(Verdict::damaged(0, format!("version {version} is unknown")));
    }
    let stored = u32::from_be_bytes([header[2], header[3], header[4], header[5]]);
    let computed = crc_fast::crc32_iscsi(&content[CHECKED_FROM..]);
    let count = u32::from_be_bytes([header[6], header[7], header[8], header[9]]);
    let body = &content[HEADER..];
    for entry in body.chunks_exact(ENTRY) {
        dump_entry(entry, report)?;
    }
    let expected = u64::from(count) * ENTRY as u64;
    Ok(match body.len() as u64 {
        _ if stored != computed => {
            let what = format!("the checksum is {computed:#010x}, the header has {stored:#010x}");
            Verdict::damaged(2, what)
        }
        found if found != expected => {
            let what = format!("{count} entries need {expected} bytes, there are {found}");
            Verdict::damaged(CHECKED_FROM as u64, what)
        }
        _ => Verdict::Sound(counted(u64::from(count), "producer", "producers")),
    })
}

fn dump_entry(entry: &[u8], report: &mut Report<'_>) -> Result<(), Failure> {
    let long = |at: usize| entry[at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
    let int = |at: usize| entry[at..].first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
    let epoch = i16::from_be_bytes([entry[8], entry[9]]);
    let (last_sequence, last_offset, delta) = (int(10), long(14), int(22));
    report.row(
        "producer",
        &[
            ("producer_id", json!(long(0))),
            ("producer_epoch", json!(epoch)),
            ("last_sequence", json!(last_sequence)),
            ("last_offset", json!(last_offset)),
            ("offset_delta", json!(delta)),
            ("timestamp", json!(long(26))),
            ("coordinator_epoch", json!(int(34))),
            ("transaction_first_offset", json!(long(38))),
        ],
    )
}
