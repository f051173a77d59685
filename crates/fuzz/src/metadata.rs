//! Arbitrary bytes as the metadata log of a data directory: a real one with edits, batches of any
//! records, a snapshot of them. It is refused or opened, and a read-only reader sees the same;
//! later changes survive another start. Records that are applied to an image are refused and change
//! nothing, or mean the same after they were encoded again.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use levada_base::batch::Builder;
use levada_log::disk::RealDisk;
use levada_metadata::controller::{Decision, allocate_producer_ids};
use levada_metadata::image::{Image, Position, Replay};
use levada_metadata::records::control::{ControlRecord, VoterEndpoint};
use levada_metadata::records::{self, NoOpRecord, TopicRecord, control};
use levada_metadata::store::{METADATA_DIR, Store, StoreLimits, StoreOptions, inspect};
use levada_wire::primitives::Uuid;

use crate::{damage, scratch};

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../../metadata/testdata/kafka-4.3.1/", $name))
    };
}

const IDENTITY: &[u8] = golden!("meta.properties");
const LOG: &str = "00000000000000000000.log";

/// Files of the metadata log.
const GOLDEN: [(&str, &[u8]); 4] = [
    (LOG, golden!("__cluster_metadata-0/00000000000000000000.log")),
    (
        "00000000000000000000-0000000000.checkpoint",
        golden!("__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"),
    ),
    ("leader-epoch-checkpoint", golden!("__cluster_metadata-0/leader-epoch-checkpoint")),
    ("quorum-state", golden!("__cluster_metadata-0/quorum-state")),
];

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else { return };
    match flags & 3 {
        0 => apply(rest),
        1 => open(&edited(rest, flags & 4 != 0)),
        2 => open(&[(LOG.to_owned(), batches(rest, (flags & 4 != 0, 0)))]),
        _ => {
            // A header, this number of records, and an end; or without an end.
            let end_offset: i64 = if flags & 4 != 0 { 5 } else { i64::MAX - i64::from(flags >> 4) };
            let name = format!("{end_offset:020}-{:010}.checkpoint", u32::from(flags >> 4));
            let mut bytes =
                control_batch(&ControlRecord::SnapshotHeader { last_contained_log_timestamp_ms: 7 });
            bytes.extend(batches(rest, (false, 1)));
            if flags & 8 != 0 {
                bytes.extend(control_batch(&ControlRecord::SnapshotFooter));
            }
            open(&[(name, bytes)]);
        }
    }
}

/// Records one after the other; two bytes before each have its form and its length.
fn values(mut input: &[u8]) -> Vec<(u8, &[u8])> {
    let mut values = Vec::new();
    while let [how, len, rest @ ..] = input {
        let (value, behind) = rest.split_at(usize::from(*len).min(rest.len()));
        values.push((*how, value));
        input = behind;
    }
    values
}

fn apply(input: &[u8]) {
    let (mut replay, mut again) = (Replay::new(Image::empty()), Replay::new(Image::empty()));
    for (offset, (_, value)) in (0..).zip(values(input)) {
        let Ok((record, _)) = records::decode(Bytes::copy_from_slice(value)) else { continue };
        let position = Position { offset, epoch: 1, timestamp_ms: 7 };
        let before = (!replay.in_transaction()).then(|| replay.clone());
        let encoded = records::encode(&record).expect("what was decoded is within limits");
        let (same, _) = records::decode(encoded).expect("our own bytes");
        let (one, other) = (replay.push(record, position), again.push(same, position));
        assert_eq!(one, other);
        match (one, before) {
            (Ok(()), _) => {}
            (Err(_), Some(before)) => {
                assert_eq!(meaning(replay.image()), meaning(before.image()));
                assert_eq!(replay.image().offset(), before.image().offset());
            }
            // Half a transaction; a reader of the log ends here.
            (Err(_), None) => return,
        }
    }
    assert_eq!(meaning(replay.image()), meaning(again.image()));
    if let Ok(Decision { outcome, .. }) = allocate_producer_ids(replay.image(), 1) {
        assert_eq!(outcome.start, replay.image().next_producer_id());
    }
}

/// The real files with edits of four bytes: file and kind, place, value. Checksums may be made
/// right again.
fn edited(input: &[u8], seal: bool) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> =
        GOLDEN.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    damage::edit(&mut files, input);
    if seal {
        files.iter_mut().take(2).for_each(|(_, bytes)| damage::seal_batches(bytes));
    }
    files
}

/// Batches of these records: each has flags for the start of a batch, its kind, and an odd offset
/// or epoch of the batch.
fn batches(input: &[u8], (odd, mut offset): (bool, i64)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let values = values(input);
    for group in values.chunk_by(|_, (how, _)| how & 1 == 0) {
        let how = group[0].0;
        let mut builder = Builder::new().base_offset(offset).leader_epoch(i32::from(how >> 4));
        if odd && how & 4 != 0 {
            builder = builder.leader_epoch(i32::MAX - i32::from(how >> 4));
        }
        if odd && how & 8 != 0 {
            builder = builder.base_offset(i64::MAX - i64::from(how >> 4));
        }
        if how & 2 != 0 {
            builder = builder.control();
        }
        for &(_, value) in group {
            let key = (how & 2 != 0).then(|| value.split_at(4.min(value.len())));
            match key {
                Some((key, value)) => builder.push(7, Some(key), Some(value)),
                None => builder.push(7, None, Some(value)),
            };
        }
        offset += group.len() as i64;
        bytes.extend_from_slice(&builder.build().expect("records of a few bytes"));
    }
    bytes
}

fn control_batch(record: &ControlRecord) -> Vec<u8> {
    let (key, value) = control::encode(record).expect("a small record");
    let mut builder = Builder::new().control();
    builder.push(7, Some(&key), Some(&value));
    builder.build().expect("a small record").to_vec()
}

fn open(files: &[(String, Vec<u8>)]) {
    let dir = scratch::path().join("data");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join(METADATA_DIR)).expect("a directory of our own");
    fs::write(dir.join("meta.properties"), IDENTITY).expect("a file of our own");
    for (name, bytes) in files {
        fs::write(dir.join(METADATA_DIR).join(name), bytes).expect("a file of our own");
    }
    let seen = inspect(&RealDisk, &dir).expect("the log is there");
    for (name, bytes) in files {
        let path = dir.join(METADATA_DIR).join(name);
        assert_eq!(fs::read(path).expect("a file of our own"), *bytes, "looking changes nothing");
    }
    let options = StoreOptions {
        disk: Arc::new(RealDisk),
        dir,
        node_id: 1,
        cluster_id: None,
        controller: VoterEndpoint { name: "CONTROLLER".to_owned(), host: "localhost".to_owned(), port: 9093 },
        min_insync_replicas: 1,
        users: Vec::new(),
        limits: StoreLimits::default(),
        others: Some(Vec::new()),
        other_dirs: Vec::new(),
        serves_tiers: false,
    };
    let Ok((mut store, report)) = Store::open(&options, 1_000) else { return };
    assert_eq!(seen.fault, report.passed_over, "opened though it cannot be read");
    if !seen.image.features().is_empty() {
        assert_eq!(meaning(store.image()), meaning(&seen.image));
        assert_eq!(report.records, seen.records);
    }
    let topic = TopicRecord { name: "a topic".to_owned(), topic_id: Uuid::from_bytes([0xa5; 16]) };
    let decide = |image: &Image, _| {
        let is_new = image.topic(&topic.name).is_none() && image.topic_by_id(topic.topic_id).is_none();
        Decision { records: vec![if is_new { topic.into() } else { NoOpRecord.into() }], outcome: () }
    };
    store.update(1_000, decide).expect("a sound log");
    let before = meaning(store.image());
    drop(store);
    let (store, _) = Store::open(&options, 1_000).expect("a sound log");
    assert_eq!(meaning(store.image()), before);
}

/// The whole contents of an image, except for positions in the log.
fn meaning(image: &Image) -> String {
    let mut text = String::new();
    for topic in image.topics().iter() {
        let found = image.topic_by_id(topic.id()).expect("what there is by name is there by id");
        assert_eq!(found.name(), topic.name());
        let _ = writeln!(text, "{} {:?}", topic.name(), topic.id());
        topic.partitions().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    }
    image.brokers().iter().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    image.brokers().controllers().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    image.config_resources().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    image.quotas().iter().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    image.credentials().iter().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    image.acls().iter().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    image.tokens().values().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    image.kept().for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    let _ = write!(text, "{:?} {}", image.features(), image.next_producer_id());
    text
}
