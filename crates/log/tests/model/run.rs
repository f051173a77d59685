//! Lives one log's life beside the vector's.

use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use levada_base::batch::{Builder, EndMarker, Marker};
use levada_log::{Append, AppendError, Appended, LogConfig, OpenOptions, OpenReport, Writer};

use crate::check::{bases, bytes, check};
use crate::damage;
use crate::kit::{Batch, Damage, Kind, Step, codec};
use crate::no_sync::NoSyncDisk;
use crate::vector::Model;

const NOW_MS: i64 = 5_000;

pub(crate) fn run(steps: &[Step], config: LogConfig) {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::default();
    model.begin_epoch(0);
    let (mut writer, report) = open(dir.path(), &config, &model, (false, 0));
    assert!(report.is_clean());
    for step in steps {
        // A range that a reader holds keeps its bytes through whatever comes.
        let held = writer.partition().read(model.log_start, 1 << 20, model.end, true).unwrap();
        let before = bytes(&held);
        writer = take(step, writer, &mut model, &config);
        check(writer.partition(), &model, &config);
        if !matches!(step, Step::Crash(_)) {
            assert_eq!(bytes(&held), before, "bytes of a held range changed");
        }
    }
}

fn open(
    dir: &Path,
    config: &LogConfig,
    model: &Model,
    (clean, recovery_point): (bool, i64),
) -> (Writer, OpenReport) {
    let options = OpenOptions {
        config: config.clone(),
        leader_epoch: model.epoch,
        recovery_point,
        log_start: model.log_start,
        clean,
        disk: Arc::new(NoSyncDisk::default()),
        ..OpenOptions::new(dir)
    };
    Writer::open(options, NOW_MS).unwrap()
}

fn take(step: &Step, mut writer: Writer, model: &mut Model, config: &LogConfig) -> Writer {
    let place = |at: u8, model: &Model| model.log_start + (model.end - model.log_start) * i64::from(at) / 255;
    match step {
        Step::Append(group) => append(&mut writer, group, model),
        Step::Roll => writer.roll(NOW_MS).unwrap(),
        Step::Flush => assert_eq!(writer.flush().unwrap(), model.end),
        Step::FlushSealed => {
            let recovery_point = writer.partition().flush_sealed().unwrap();
            assert!(recovery_point >= *bases(&writer.partition().dir()).last().unwrap());
        }
        Step::Truncate(at) => {
            let offset = place(*at, model);
            if offset < model.end {
                model.truncate(offset);
            }
            assert_eq!(writer.truncate(offset, NOW_MS).unwrap(), model.end);
        }
        // Once segments are deleted, only the snapshots have their producers.
        Step::AdvanceLogStart(_) | Step::Retain(_) if model.lost_snapshot => {}
        Step::AdvanceLogStart(at) => {
            let offset = place(*at, model);
            model.advance(offset);
            writer.advance_log_start(offset).unwrap().remove().unwrap();
        }
        Step::Retain(at) => {
            let limit = writer.partition().size_bytes() * u64::from(*at) / 255;
            writer.set_config(LogConfig { retention_bytes: limit as i64, ..config.clone() });
            writer.delete_old_segments(NOW_MS).unwrap().remove().unwrap();
            writer.set_config(config.clone());
            let kept = writer.partition().size_bytes();
            assert!(kept >= limit.min(kept), "more went than had to");
            model.advance(bases(&writer.partition().dir())[0]);
        }
        Step::NextEpoch => {
            model.begin_epoch(model.epoch + 1);
            writer.set_leader_epoch(model.epoch);
        }
        Step::ReopenClean => {
            let dir = writer.partition().dir().to_owned();
            assert_eq!(writer.close().unwrap(), model.end);
            model.reload();
            let (reopened, report) = open(&dir, config, model, (true, model.end));
            assert_eq!(report, OpenReport::default());
            return reopened;
        }
        Step::Crash(damage) => return crash(writer, damage, model, config),
    }
    writer
}

fn crash(writer: Writer, damage: &Damage, model: &mut Model, config: &LogConfig) -> Writer {
    let partition = writer.partition().clone();
    let (dir, recovery_point) = (partition.dir().to_owned(), partition.recovery_point());
    drop(writer);
    let log_start = model.log_start;
    model.lost_snapshot |= matches!(damage, Damage::LostSnapshot(_));
    match damage::apply(&dir, recovery_point, damage) {
        // An epoch in which nothing was written may be forgotten with the end of the log; the
        // broker says it again.
        Some(offset) => model.truncate(offset),
        None => model.reload(),
    }
    if log_start > model.end {
        model.start_over(log_start);
    }
    let (reopened, report) = open(&dir, config, model, (false, recovery_point));
    if let Some(cut) = &report.cut {
        assert!(cut.offset == model.end || model.batches.is_empty());
    }
    assert!(reopened.partition().log_end() >= recovery_point.max(log_start), "flushed records are gone");
    reopened
}

fn append(writer: &mut Writer, group: &[Batch], model: &mut Model) {
    let mut expected = Vec::new();
    let mut appends = Vec::new();
    // The state that each batch meets depends on those before it in the group: the model goes
    // ahead.
    let mut ahead = Model { producers: model.producers.clone(), end: model.end, ..Model::default() };
    for one in group {
        let (append, wanted) = build(one, &ahead);
        if let Wanted::New = wanted {
            let mut placed = append.records.to_vec();
            placed[..8].copy_from_slice(&ahead.end.to_be_bytes());
            ahead.push(&placed);
        }
        expected.push(wanted);
        appends.push(append);
    }
    let outcomes = writer.append(&mut appends, NOW_MS);
    assert_eq!(outcomes.len(), group.len());
    for ((outcome, wanted), append) in outcomes.iter().zip(expected).zip(&appends) {
        match (wanted, outcome) {
            (Wanted::New, Ok(Appended { duplicate: false, base_offset, last_offset, .. })) => {
                assert_eq!(*base_offset, model.end);
                model.push(&append.records);
                assert_eq!(model.end, last_offset + 1);
            }
            (Wanted::Duplicate { base, .. }, Ok(Appended { duplicate: true, base_offset, .. })) => {
                assert_eq!(*base_offset, base);
            }
            (Wanted::Duplicate { doubtful: true, .. }, Err(AppendError::OutOfOrderSequence { .. })) => {}
            (Wanted::OutOfOrder, Err(AppendError::OutOfOrderSequence { .. })) => {}
            (Wanted::Fenced, Err(AppendError::ProducerEpoch { .. })) => {}
            (wanted, outcome) => panic!("{wanted:?}, but {outcome:?}"),
        }
    }
}

#[derive(Debug)]
enum Wanted {
    New,
    Duplicate { base: i64, doubtful: bool },
    OutOfOrder,
    Fenced,
}

fn build(one: &Batch, model: &Model) -> (Append, Wanted) {
    let producer = |id: u8| model.producers.get(&i64::from(id)).cloned().unwrap_or_default();
    let next = |id: u8| producer(id).window.last().map_or(0, |last| (last.1 + 1) & i32::MAX);
    let known = |id: u8| model.producers.contains_key(&i64::from(id));
    let plain = |records: BytesMut, wanted| (Append::client(records), wanted);
    match one.kind {
        Kind::Plain => plain(fill(one, Builder::new()), Wanted::New),
        Kind::Next(id) | Kind::Transactional(id) => {
            let builder = Builder::new().producer(i64::from(id), producer(id).epoch, next(id));
            let transactional = matches!(one.kind, Kind::Transactional(_));
            plain(fill(one, if transactional { builder.transactional() } else { builder }), Wanted::New)
        }
        Kind::Again(id, back) => {
            let window = producer(id).window;
            let Some(at) = window.len().checked_sub(1 + usize::from(back)) else {
                return plain(fill(one, Builder::new()), Wanted::New);
            };
            let (first, last, base) = window[at];
            let builder = Builder::new().producer(i64::from(id), producer(id).epoch, first);
            let records = ((last - first) & i32::MAX) + 1;
            let again = Batch { records: records as u8, ..one.clone() };
            plain(fill(&again, builder), Wanted::Duplicate { base, doubtful: at < producer(id).doubtful })
        }
        Kind::Gap(id) => {
            let sequence = (next(id) + 1000) & i32::MAX;
            let builder = Builder::new().producer(i64::from(id), producer(id).epoch, sequence);
            plain(fill(one, builder), if known(id) { Wanted::OutOfOrder } else { Wanted::New })
        }
        Kind::Bump(id) => {
            let builder = Builder::new().producer(i64::from(id), producer(id).epoch + 1, 0);
            plain(fill(one, builder), Wanted::New)
        }
        Kind::Stale(id) if producer(id).epoch > 0 => {
            let builder = Builder::new().producer(i64::from(id), producer(id).epoch - 1, next(id));
            plain(fill(one, builder), Wanted::Fenced)
        }
        Kind::Stale(_) => plain(fill(one, Builder::new()), Wanted::New),
        Kind::Commit(id) | Kind::Abort(id) => {
            let marker = if matches!(one.kind, Kind::Abort(_)) { Marker::Abort } else { Marker::Commit };
            let (producer_id, producer_epoch) = (i64::from(id), producer(id).epoch);
            let timestamp_ms = one.timestamp.max(0);
            let end = EndMarker { marker, producer_id, producer_epoch, coordinator_epoch: 0, timestamp_ms };
            let records = end.build().unwrap();
            (Append::coordinator(records), Wanted::New)
        }
    }
}

fn fill(one: &Batch, builder: Builder) -> BytesMut {
    let mut builder = builder.compression(codec(one.codec));
    for at in 0..one.records {
        let value: Vec<u8> = (0..one.value_len).map(|byte| (byte as u8).wrapping_mul(at | 1)).collect();
        let timestamp =
            if one.timestamp < 0 { -1 } else { one.timestamp.saturating_sub(i64::from(at) * 7).max(0) };
        builder.push(timestamp, Some(&[at]), Some(&value));
    }
    builder.build().unwrap()
}
