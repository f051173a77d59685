//! Segments and KRaft snapshots: record batches, each checked.

use std::path::Path;

use levada_base::batch::{self, BatchView, EndMarker, Record};
use levada_broker::offline::InternalTopic;
use levada_log::check::{Batches, Next};
use levada_log::disk::RealDisk;
use levada_terminal::escapes::printable;
use levada_terminal::failure::Failure;
use levada_terminal::output::counted;
use serde_json::{Value, json};

use super::report::{Report, Verdict};
use super::{base_offset, unreadable};

/// Findings in a segment so far.
#[derive(Default)]
struct Tally {
    /// The topic, if its records can be decoded.
    internal: Option<InternalTopic>,
    batches: u64,
    records: u64,
    first_offset: Option<i64>,
    next_offset: i64,
    first_damage: Option<(u64, String)>,
}

/// The internal topic of the directory that contains a file.
fn internal_topic(path: &Path) -> Option<InternalTopic> {
    let path = path.canonicalize().ok()?;
    InternalTopic::of_directory(path.parent()?.file_name()?.to_str()?)
}

pub(super) fn dump(path: &Path, records: bool, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    let mut segment = Batches::open(&RealDisk, path).map_err(|error| unreadable(path, &error))?;
    let mut tally = Tally {
        next_offset: base_offset(path).unwrap_or(0),
        internal: internal_topic(path),
        ..Tally::default()
    };
    loop {
        match segment.next_batch().map_err(|error| unreadable(path, &error))? {
            Next::Batch { at, bytes } => tally.take(at, bytes, records, report)?,
            Next::End { unused: 0 } => break,
            Next::End { unused } => {
                report.row("unused", &[("position", json!(segment.position())), ("bytes", json!(unused))])?;
                break;
            }
            Next::Broken(what) => {
                tally.damage(segment.position(), what);
                break;
            }
        }
    }
    Ok(tally.verdict())
}

impl Tally {
    fn take(&mut self, at: u64, bytes: &[u8], records: bool, report: &mut Report<'_>) -> Result<(), Failure> {
        let checked = batch::check_stored(bytes);
        let view = match BatchView::parse(bytes) {
            Ok(view) => view,
            Err(error) => {
                self.damage(at, error.to_string());
                return Ok(());
            }
        };
        if let Err(error) = &checked {
            self.damage(at, error.to_string());
        }
        if view.base_offset() < self.next_offset {
            let what = format!("base offset {} is below {}", view.base_offset(), self.next_offset);
            self.damage(at, what);
        }
        report.row("batch", &batch_fields(at, &view, checked.is_ok()))?;
        // Records under a wrong checksum could be anything.
        if checked.is_ok() {
            self.take_records(at, &view, records, report)?;
        }
        self.batches += 1;
        self.first_offset.get_or_insert(view.base_offset());
        self.next_offset = self.next_offset.max(view.last_offset().saturating_add(1));
        Ok(())
    }

    fn take_records(
        &mut self,
        at: u64,
        view: &BatchView<'_>,
        print: bool,
        report: &mut Report<'_>,
    ) -> Result<(), Failure> {
        let records = match batch::records(view.bytes()) {
            Ok(records) => records,
            Err(error) => {
                self.damage(at, error.to_string());
                return Ok(());
            }
        };
        for record in records {
            match record {
                Ok(record) => {
                    self.records += 1;
                    if print {
                        let mut fields = record_fields(view, &record);
                        if let Some(topic) = self.internal {
                            decode(topic, record, (view.is_control(), report.is_json()), &mut fields);
                        }
                        report.row("record", &fields)?;
                    }
                }
                Err(error) => self.damage(at, error.to_string()),
            }
        }
        Ok(())
    }

    fn damage(&mut self, at: u64, what: String) {
        self.first_damage.get_or_insert((at, what));
    }

    fn verdict(self) -> Verdict {
        match (self.first_damage, self.first_offset) {
            (Some((at, what)), _) => Verdict::damaged(at, what),
            (None, None) => Verdict::Sound("empty".to_owned()),
            (None, Some(first)) => Verdict::Sound(format!(
                "{}, {}, offsets {first} to {}",
                counted(self.batches, "batch", "batches"),
                counted(self.records, "record", "records"),
                self.next_offset - 1
            )),
        }
    }
}

fn batch_fields(at: u64, view: &BatchView<'_>, crc_is_right: bool) -> Vec<(&'static str, Value)> {
    let codec = view.compression().map_or("unknown", |codec| codec.name());
    let crc = format!("{:#010x}", view.stored_crc());
    let mut fields = vec![
        ("position", json!(at)),
        ("base_offset", json!(view.base_offset())),
        ("last_offset", json!(view.last_offset())),
        ("records", json!(view.record_count())),
        ("bytes", json!(view.size_bytes())),
        ("crc", json!(crc)),
        ("check", json!(if crc_is_right { "ok" } else { "WRONG" })),
        ("compression", json!(codec)),
        ("leader_epoch", json!(view.leader_epoch())),
        ("max_timestamp", json!(view.max_timestamp())),
    ];
    if view.producer_id() >= 0 {
        fields.push(("producer_id", json!(view.producer_id())));
        fields.push(("producer_epoch", json!(view.producer_epoch())));
        fields.push(("base_sequence", json!(view.base_sequence())));
        fields.push(("last_sequence", json!(view.last_sequence())));
    }
    let flags = [
        ("log_append_time", view.is_log_append_time()),
        ("transactional", view.is_transactional()),
        ("control", view.is_control()),
    ];
    fields.extend(flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| (name, json!(true))));
    if let Some(horizon) = view.delete_horizon_ms() {
        fields.push(("delete_horizon_ms", json!(horizon)));
    }
    if let Some(end) = view.is_control().then(|| EndMarker::parse(view.bytes())).flatten() {
        fields.push(("marker", json!(format!("{:?}", end.marker).to_lowercase())));
        fields.push(("coordinator_epoch", json!(end.coordinator_epoch)));
    }
    fields
}

fn record_fields(view: &BatchView<'_>, record: &Record) -> Vec<(&'static str, Value)> {
    let text = |bytes: &Option<bytes::Bytes>| bytes.as_deref().map(printable);
    let headers = record.headers.iter();
    let headers: Vec<Value> =
        headers.map(|header| json!([printable(header.key), header.value.map(printable)])).collect();
    let mut fields = vec![
        ("offset", json!(view.base_offset().saturating_add(i64::from(record.offset_delta)))),
        ("timestamp", json!(view.base_timestamp().saturating_add(record.timestamp_delta))),
        ("key", json!(text(&record.key))),
        ("value", json!(text(&record.value))),
    ];
    if !headers.is_empty() {
        fields.push(("headers", Value::Array(headers)));
    }
    fields
}

/// Adds the decoded record of an internal topic. In text output it replaces the bytes.
fn decode(
    topic: InternalTopic,
    record: Record,
    (is_control, is_json): (bool, bool),
    fields: &mut Vec<(&'static str, Value)>,
) {
    let decoded = if is_control {
        let Some(decoded) = topic.decode_control(record.key, record.value) else { return };
        decoded
    } else {
        topic.decode(record.key, record.value)
    };
    match decoded {
        Ok(decoded) => {
            if !is_json {
                fields.retain(|(name, _)| !["key", "value"].contains(name));
            }
            fields.push(("decoded", decoded));
        }
        Err(error) => fields.push(("undecoded", json!(error))),
    }
}
