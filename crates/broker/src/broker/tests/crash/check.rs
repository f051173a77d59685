//! Holds a broker that was opened on a wreck against what its life had done by then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_base::batch::{self, BatchView, EndMarker, Marker};
use levada_coordination::group::Producer;
use levada_coordination::group::request::{EndTxnRequest, FetchRequest};
use levada_coordination::txn::TxnState;
use levada_coordination::txn::coordinator::ListFilter;
use levada_metadata::image::ConfigResource;
use tokio::time::Instant;

use super::facts::{BatchFact, Facts, TopicFact};
use super::life::{Incarnation, copier, settle};
use crate::broker::Broker;
use crate::replica::{OFFSETS_TOPIC, Partition};
use crate::transaction::MARKER_WAIT;

/// A life that ended at a moment.
#[derive(Clone, Copy)]
pub(super) struct Ended<'a> {
    pub(super) facts: &'a Facts,
    /// Number of changes that had been made.
    pub(super) moment: usize,
    /// True if everything that was acknowledged must be there: not after a loss of power if
    /// acknowledgements did not wait for the device.
    pub(super) keeps: bool,
    /// True if only the process ended: unacknowledged writes are there as well.
    pub(super) is_whole: bool,
}

type Check = Result<(), String>;

macro_rules! ensure {
    ($held:expr, $($what:tt)+) => {
        if !$held {
            return Err(format!($($what)+));
        }
    };
}

/// Contents of one log.
#[derive(Default)]
struct Found {
    batches: Vec<Batch>,
    start: i64,
    end: i64,
}

struct Batch {
    base: i64,
    last: i64,
    epoch: i32,
    producer: (i64, i16),
    last_sequence: i32,
    is_transactional: bool,
    marker: Option<Marker>,
    /// Offset, key and value.
    records: Vec<(i64, Vec<u8>, Option<Vec<u8>>)>,
}

impl Found {
    /// Records of the log that are not control records.
    fn records(&self) -> impl Iterator<Item = &(i64, Vec<u8>, Option<Vec<u8>>)> {
        self.batches.iter().filter(|one| one.marker.is_none()).flat_map(|one| &one.records)
    }
}

/// Everything that must hold immediately, before anything else is written.
pub(super) fn check(now: &Incarnation, life: Ended<'_>) -> Check {
    ensure!(now.broker.replicas().unopened().lock().is_empty(), "partitions are offline");
    for topic in &life.facts.topics {
        check_topic(&now.broker, topic, life).map_err(|what| format!("topic {}: {what}", topic.name))?;
    }
    for partition in
        now.broker.replicas().partitions().all().iter().filter(|partition| partition.is_internal())
    {
        let sound = read(partition).and_then(|found| check_epochs(partition, &found));
        sound.map_err(|what| format!("{}: {what}", partition.name()))?;
    }
    check_commits(now, life)?;
    check_transactions(&now.broker, life)
}

fn check_topic(broker: &Broker, topic: &TopicFact, life: Ended<'_>) -> Check {
    let moment = life.moment;
    let image = broker.metadata().image();
    let must_be =
        topic.created.must_be(moment) && topic.deleted.is_none_or(|deleted| !deleted.may_be(moment));
    let may_be = topic.created.may_be(moment) && topic.deleted.is_none_or(|deleted| !deleted.must_be(moment));
    let Some(found) = image.topic_by_id(topic.id) else {
        ensure!(!must_be, "it was created and is not there");
        return Ok(());
    };
    ensure!(may_be, "it must not be there");
    ensure!(**found.name() == *topic.name, "its name is {}", found.name());
    let count = found.partitions().count() as i32;
    let least = topic.grown.iter().filter(|(_, grown)| grown.must_be(moment)).map(|(count, _)| *count).max();
    ensure!(count >= least.unwrap_or(0), "{count} partitions, not {least:?}");
    for key in ["retention.ms", "retention.bytes"] {
        let found = image.configs(&ConfigResource::topic(&*topic.name)).and_then(|own| own.get(key).cloned());
        let history: Vec<_> = topic.configured.iter().filter(|(one, ..)| *one == key).collect();
        let last = history.iter().rposition(|(.., span)| span.must_be(moment));
        let mut possible = history[last.unwrap_or(0)..].iter().filter(|(.., span)| span.may_be(moment));
        let as_set = found.as_ref().is_some_and(|value| possible.any(|(_, possible, _)| possible == value));
        ensure!(as_set || last.is_none() && found.is_none(), "{key} is {found:?}");
    }
    for index in 0..count {
        let partition = broker
            .replicas()
            .partition_by_id(topic.id, index)
            .map_err(|error| format!("{index}: {error:?}"))?;
        check_log(&partition, topic, life).map_err(|what| format!("partition {index}: {what}"))?;
    }
    Ok(())
}

fn read(partition: &Partition) -> Result<Found, String> {
    let log = partition.log();
    let mut found = Found { start: log.log_start(), end: log.log_end(), ..Found::default() };
    let mut offset = found.start;
    while offset < found.end {
        let bytes = log.read_batches(offset, 1 << 20).map_err(|error| format!("at {offset}: {error}"))?;
        let mut rest = &bytes[..];
        if rest.is_empty() {
            break;
        }
        while !rest.is_empty() {
            let view = batch::check_stored(rest).map_err(|error| format!("at {offset}: {error}"))?;
            found.batches.push(Batch::of(&view)?);
            offset = view.last_offset() + 1;
            rest = &rest[view.size_bytes()..];
        }
    }
    Ok(found)
}

impl Batch {
    fn of(view: &BatchView<'_>) -> Result<Self, String> {
        let mut records = Vec::new();
        for record in batch::records(view.bytes()).map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            let offset = view.base_offset() + i64::from(record.offset_delta);
            let text = |bytes: Option<bytes::Bytes>| bytes.map(|bytes| bytes.to_vec());
            records.push((offset, text(record.key).unwrap_or_default(), text(record.value)));
        }
        let marker =
            if view.is_control() { EndMarker::parse(view.bytes()).map(|end| end.marker) } else { None };
        Ok(Self {
            base: view.base_offset(),
            last: view.last_offset(),
            epoch: view.leader_epoch(),
            producer: (view.producer_id(), view.producer_epoch()),
            last_sequence: view.last_sequence(),
            is_transactional: view.is_transactional(),
            marker,
            records,
        })
    }
}

fn check_log(partition: &Partition, topic: &TopicFact, life: Ended<'_>) -> Check {
    let (log, found, moment) = (partition.log(), read(partition)?, life.moment);
    let here = || topic.batches.iter().filter(|batch| batch.partition == partition.index());
    ensure!(log.recovery_point() <= found.end, "the recovery point is {}", log.recovery_point());
    ensure!(log.high_watermark() == found.end, "the high watermark is {}", log.high_watermark());
    // Nothing that was not written, nothing in a wrong place.
    for (offset, key, value) in found.records() {
        let written = here().any(|batch| {
            batch.span.may_be(moment)
                && (batch.base..=batch.last).contains(offset)
                && (&batch.key, &batch.value) == (key, value)
        });
        ensure!(written, "offset {offset} holds something that was not written there");
    }
    let starts =
        topic.starts.iter().filter(|(index, _, span)| *index == partition.index() && span.may_be(moment));
    let start = starts.map(|(_, offset, _)| *offset).max().unwrap_or(0);
    ensure!(found.start <= start, "the log starts at {}, not before {start}", found.start);
    let least = topic.kept_start(partition.index(), moment);
    ensure!(found.start >= least, "the log starts at {}, a checkpoint had {least}", found.start);
    // Records for which no client waited may have become durable since.
    let flushed_to = topic.flushed_to(partition.index(), moment);
    let stays = |batch: &BatchFact| (life.keeps || batch.last < flushed_to) && batch.last >= found.start;
    if topic.policy.compacts() {
        let claimed = claimed(partition, &found)?;
        let is_claimed = |batch: &BatchFact| {
            claimed.contains(&(batch.producer, batch.last_sequence))
                && batch.span.may_be(moment)
                && batch.last >= found.start
                && batch.transaction.is_none()
        };
        let is_due =
            |batch: &&BatchFact| stays(batch) && life.facts.must_count(batch, moment) || is_claimed(batch);
        check_keys(&found, here().filter(is_due), here, life)?;
    } else {
        let due = here().filter(|batch| batch.span.must_be(moment) && stays(batch));
        let bases: BTreeSet<i64> = found.batches.iter().map(|batch| batch.base).collect();
        let lost = due.map(|batch| batch.base).find(|base| !bases.contains(base));
        ensure!(
            lost.is_none(),
            "offset {lost:?} was acknowledged, the log holds {bases:?} (flushed up to {flushed_to})"
        );
        check_order(&found, life.is_whole)?;
        check_holes(&found, here, life)?;
        check_state(partition, &found, here, life)?;
    }
    check_producers(partition, &found, topic.policy.compacts())?;
    check_epochs(partition, &found)
}

/// A producer's id and epoch, and the sequence number of its last record.
type Claim = ((i64, i16), i32);

/// The last sequence number of each producer that the log's batches do not show: a client that
/// sends such a batch again is told that it is there. Only compaction may have removed it, for the
/// sake of later values.
fn claimed(partition: &Partition, found: &Found) -> Result<BTreeSet<Claim>, String> {
    let shown: BTreeSet<_> =
        found.batches.iter().map(|batch| (batch.producer, batch.last_sequence)).collect();
    let claims = states(partition)?.into_iter().filter(|state| state.last_sequence >= 0);
    let claims = claims.map(|state| ((state.producer_id, state.epoch), state.last_sequence));
    Ok(claims.filter(|claim| !shown.contains(claim)).collect())
}

fn states(partition: &Partition) -> Result<Vec<levada_log::ProducerState>, String> {
    let states = partition.lane().with_writer(|writer| writer.producer_states());
    states.ok_or_else(|| "the lane is closed".to_owned())
}

/// The last value of each key is there, or a later one that counts: what was written in a
/// transaction does so only once that is committed. A key whose last value is none has none, or an
/// older one only before it. So does a key with a later value of none that may count.
fn check_keys<'a, A: Iterator<Item = &'a BatchFact>>(
    found: &Found,
    due: impl Iterator<Item = &'a BatchFact>,
    all: impl Fn() -> A,
    life: Ended<'_>,
) -> Check {
    let mut last: BTreeMap<&[u8], &BatchFact> = BTreeMap::new();
    for batch in due {
        let latest = last.entry(&batch.key).or_insert(batch);
        if latest.last < batch.last {
            *latest = batch;
        }
    }
    for (key, due) in last {
        let offsets: BTreeSet<i64> =
            found.records().filter(|(_, one, _)| one == key).map(|(offset, ..)| *offset).collect();
        let counts = |offset: &i64| {
            let mut at = all().filter(|batch| (batch.base..=batch.last).contains(offset));
            at.any(|batch| life.facts.may_count(batch, life.moment))
        };
        if offsets.contains(&due.last) || offsets.range(due.last + 1..).any(counts) {
            continue;
        }
        // Compaction may have applied a later record that deletes the key, and removed it, before
        // that record was acknowledged.
        let is_deleted = all().any(|batch| {
            let is_later = due.last < batch.last && batch.last < found.end;
            let deletes = batch.key == key && batch.value.is_none();
            let has_gone = offsets.range(..=batch.last).next().is_none();
            is_later && deletes && has_gone && life.facts.may_count(batch, life.moment)
        });
        if is_deleted {
            continue;
        }
        ensure!(due.value.is_none(), "key {key:?} of offset {} is gone; it is at {offsets:?}", due.last);
        ensure!(
            offsets.range(..due.base).next().is_none(),
            "key {key:?} was deleted by offset {}, and is back at {offsets:?}",
            due.last
        );
    }
    Ok(())
}

/// Checks that no offset occurs twice, and that there is no hole unless power was lost. After a
/// loss of power, unacknowledged records may be missing at the end of one segment although the next
/// segment exists, also with `fdatasync` (a marker before its sync, for example), and their offsets
/// are not assigned again.
fn check_order(found: &Found, is_whole: bool) -> Check {
    let first = found.batches.first().map_or(found.start, |batch| batch.base);
    ensure!(
        first <= found.start || !is_whole,
        "the log starts at {}, its first batch at {first}",
        found.start
    );
    let mut due = first;
    for (base, end) in
        found.batches.iter().map(|batch| (batch.base, batch.last + 1)).chain([(found.end, found.end)])
    {
        ensure!(base == due || base > due && !is_whole, "offset {base} follows {due}");
        due = end;
    }
    Ok(())
}

/// If acknowledgements wait for the device, a hole contains only whole unacknowledged batches, or
/// markers.
fn check_holes<'a, A: Iterator<Item = &'a BatchFact>>(
    found: &Found,
    all: impl Fn() -> A,
    life: Ended<'_>,
) -> Check {
    let ends = found.batches.iter().map(|batch| batch.last + 1);
    let bases = found.batches.iter().skip(1).map(|batch| batch.base).chain([found.end]);
    for hole in ends.zip(bases).map(|(from, to)| from..to).filter(|hole| life.keeps && !hole.is_empty()) {
        let mut within = all().filter(|batch| batch.base < hole.end && hole.start <= batch.last);
        let told = within.find(|batch| {
            batch.span.must_be(life.moment) || batch.base < hole.start || batch.last >= hole.end
        });
        ensure!(
            told.is_none(),
            "in the hole {hole:?} was the batch of offset {:?}",
            told.map(|one| one.base)
        );
    }
    Ok(())
}

/// Compares the log's transactions with those of its batches. Where its beginning is gone, so may
/// be the beginnings of transactions.
fn check_state<'a, A: Iterator<Item = &'a BatchFact>>(
    partition: &Partition,
    found: &Found,
    all: impl Fn() -> A,
    life: Ended<'_>,
) -> Check {
    let first = found.batches.first().map_or(found.end, |batch| batch.base);
    let is_open = |batch: &BatchFact| match batch.transaction.map(|number| &life.facts.ends[number]) {
        Some(Some((_, span))) => !span.must_be(life.moment),
        Some(None) => true,
        None => false,
    };
    let hidden: Vec<_> = all().filter(|batch| batch.base < first && batch.transaction.is_some()).collect();
    let is_shown = |batch: &BatchFact| {
        found.batches.iter().any(|one| one.marker.is_some() && one.producer.0 == batch.producer.0)
    };
    // The marker of a decision that was told may be still to come: then it is neither among the
    // batches nor before them. Each offset before them without a record is one marker,
    // and a producer whose first batch among them is a marker ended a transaction before them.
    let is_record = |offset: i64| all().any(|one| (one.base..=one.last).contains(&offset));
    let begin = hidden.iter().map(|batch| batch.base).min().unwrap_or(first);
    let markers: Vec<i64> = (begin..first).filter(|offset| !is_record(*offset)).collect();
    let decided: Vec<_> = hidden.iter().filter(|batch| !is_open(batch) && !is_shown(batch)).collect();
    let ends_hidden = |producer: &&i64| {
        let mut shown = found.batches.iter().filter(|one| one.is_transactional || one.marker.is_some());
        shown.find(|one| one.producer.0 == **producer).is_some_and(|one| one.marker.is_some())
    };
    let producers: BTreeSet<_> = hidden.iter().map(|batch| batch.producer.0).collect();
    let ended = markers.len() + producers.iter().filter(ends_hidden).count();
    let transactions: BTreeSet<_> = hidden.iter().map(|batch| batch.transaction).collect();
    let lacks_a_marker = transactions.len() > ended
        || decided.iter().any(|batch| markers.last().is_none_or(|marker| *marker < batch.last));
    let may_be_open =
        lacks_a_marker || hidden.iter().any(|batch| !life.keeps || is_open(batch) && !is_shown(batch));
    let (mut open, mut aborted) = (BTreeMap::new(), BTreeSet::new());
    for batch in &found.batches {
        match batch.marker {
            Some(marker) => {
                let began = open.remove(&batch.producer.0);
                aborted
                    .extend(began.filter(|_| marker == Marker::Abort).map(|began| (began, batch.producer.0)));
            }
            None if batch.is_transactional => {
                open.entry(batch.producer.0).or_insert(batch.base);
            }
            None => {}
        }
    }
    let log = partition.log();
    let stable = open.values().min().copied().unwrap_or(found.end).max(found.start);
    let is_so =
        log.last_stable() == stable || may_be_open && (found.start..stable).contains(&log.last_stable());
    ensure!(is_so, "the last stable offset is {}, not {stable}", log.last_stable());
    let told = log.aborted(found.start, log.last_stable()).map_err(|error| error.to_string())?;
    let told: BTreeSet<_> = told.iter().map(|one| (one.first_offset, one.producer_id)).collect();
    let is_hidden = |(offset, producer): &(i64, i64)| {
        *offset < first && hidden.iter().any(|batch| batch.base == *offset && batch.producer.0 == *producer)
    };
    let is_told = |one: &(i64, i64)| {
        told.contains(one) || told.iter().any(|told| told.1 == one.1 && told.0 < one.0 && is_hidden(told))
    };
    let untold =
        aborted.iter().find(|one| (found.start..log.last_stable()).contains(&one.0) && !is_told(one));
    let untrue = told.iter().find(|one| !aborted.contains(one) && !is_hidden(one));
    ensure!(untold.is_none() && untrue.is_none(), "aborted are {aborted:?}, told are {told:?}");
    Ok(())
}

/// Each producer continues where its last batch ended. Of a log that `is_compacted` the last batch
/// may be gone: a later one, which had not reached the device when power was lost, was the last
/// when compaction asked for it. Then a snapshot may still know of it, and `check_keys` holds the
/// log to what such a snapshot has clients believe.
fn check_producers(partition: &Partition, found: &Found, is_compacted: bool) -> Check {
    let mut last = BTreeMap::new();
    for batch in found.batches.iter().filter(|batch| batch.marker.is_none() && batch.producer.0 >= 0) {
        last.insert(batch.producer.0, (batch.producer.1, batch.last_sequence));
    }
    let states = states(partition)?;
    for (producer, (epoch, sequence)) in last {
        let state = states.iter().find(|state| state.producer_id == producer);
        let same = state.is_some_and(|state| {
            let is_later = is_compacted && state.last_sequence > sequence;
            state.epoch > epoch || state.last_sequence == sequence || is_later
        });
        ensure!(same, "producer {producer} wrote {sequence} last, and is {state:?}");
    }
    Ok(())
}

fn check_epochs(partition: &Partition, found: &Found) -> Check {
    let log = partition.log();
    let mut epoch = -1;
    for batch in &found.batches {
        ensure!(batch.epoch >= epoch, "epoch {} after {epoch} at {}", batch.epoch, batch.base);
        epoch = batch.epoch;
        let (same, end) = log.epoch_end_offset(epoch);
        ensure!(
            same == epoch && end > batch.last,
            "epoch {epoch} is said to end at {end} ({same}), before {}",
            batch.last
        );
    }
    ensure!(log.latest_epoch() >= epoch, "the latest epoch is {}, not {epoch}", log.latest_epoch());
    Ok(())
}

fn check_commits(now: &Incarnation, life: Ended<'_>) -> Check {
    let known = life.facts.commits.iter().map(|(group, ..)| group.clone());
    // Offsets committed in aborted transactions are never visible.
    let groups: BTreeSet<String> = known.chain(["t0", "t1"].map(copier)).collect();
    for group in &groups {
        let request = FetchRequest {
            group_id: group.clone(),
            member_id: None,
            member_epoch: -1,
            topics: None,
            require_stable: false,
        };
        let fetched = match now.run(now.broker.coordinators().groups().ask(request)) {
            Ok(fetched) => fetched,
            Err(_) if now.broker.metadata().image().topic(OFFSETS_TOPIC).is_none() => Vec::new(),
            Err(error) => return Err(format!("group {group}: {error:?}")),
        };
        for index in 0..2 {
            let of = |partition: &i32, name: &String| *partition == index && name == group;
            let history: Vec<_> =
                life.facts.commits.iter().filter(|(name, partition, ..)| of(partition, name)).collect();
            let last =
                history.iter().rposition(|(.., span)| span.must_be(life.moment)).filter(|_| life.keeps);
            let mut possible =
                history[last.unwrap_or(0)..].iter().filter(|(.., span)| span.may_be(life.moment));
            let offset = fetched.iter().flat_map(|topic| &topic.partitions).find(|one| one.index == index);
            let offset = offset.map(|one| one.offset).filter(|offset| *offset >= 0);
            let as_committed =
                offset.is_some_and(|offset| possible.any(|(_, _, possible, _)| *possible == offset));
            // With the end of a segment the marker of a transaction may be lost that was aborted;
            // one of a later transaction of the same producer, in the next segment, then counts for
            // both, in Kafka as well.
            let was_proposed = || {
                let mut proposed = life.facts.proposed.iter().filter(|(name, ..)| name == group);
                proposed.any(|(_, at, since)| Some(*at) == offset && *since <= life.moment)
            };
            let as_committed = as_committed || !life.keeps && index == 0 && was_proposed();
            ensure!(
                as_committed || offset.is_none() && last.is_none(),
                "group {group}, partition {index}: offset {offset:?} of {history:?}"
            );
        }
    }
    Ok(())
}

/// A decision that was told is not taken back.
fn check_transactions(broker: &Broker, life: Ended<'_>) -> Check {
    let facts = &life.facts.transactions;
    let ids: BTreeSet<&String> = facts.iter().map(|(id, ..)| id).collect();
    for id in ids {
        let history: Vec<_> =
            facts.iter().filter(|(one, _, span)| one == id && span.may_be(life.moment)).collect();
        let Some((_, Some(commit), span)) = history.last() else { continue };
        if !span.must_be(life.moment) || !life.keeps {
            continue;
        }
        let state =
            broker.coordinators().txns().view(id, |one| one.describe(id).map(|described| described.state));
        let held = match state {
            Some(Ok(TxnState::PrepareCommit | TxnState::CompleteCommit)) => *commit,
            Some(Ok(TxnState::PrepareAbort | TxnState::CompleteAbort)) => !*commit,
            _ => false,
        };
        ensure!(held, "transaction {id}: commit is {commit}, and it is {state:?}");
    }
    Ok(())
}

/// Life continues: what was decided is finished, every log can be appended to, and stops and starts
/// in good order.
pub(super) fn go_on(now: &Incarnation, life: Ended<'_>) -> Check {
    now.run_transactions();
    let broker = &now.broker;
    let listed = broker
        .coordinators()
        .txns()
        .view_all(|one| one.list(&ListFilter { longer_than_ms: -1, ..ListFilter::default() }, 0));
    let listed: Vec<_> = listed.into_iter().flatten().flat_map(|listing| listing.transactions).collect();
    for one in &listed {
        // A coordinator that lost what it had acknowledged may have decided for an epoch that a
        // partition's log has left behind: the marker is refused, and the transaction stays
        // prepared, in Kafka as well.
        if life.keeps {
            settle(now, &one.transactional_id);
        }
    }
    let is_open = listed.iter().any(|one| one.state == TxnState::Ongoing);
    let mut partitions = broker.replicas().partitions().all();
    partitions.sort_by_key(|partition| partition.name());
    if !life.keeps {
        let ongoing = listed.iter().filter(|one| one.state == TxnState::Ongoing);
        let ongoing: BTreeSet<i64> = ongoing.map(|one| one.producer_id).collect();
        partitions.iter().try_for_each(|partition| end_hanging(now, partition, &ongoing))?;
    }
    for partition in &partitions {
        let log = partition.log();
        let (stable, end) = (log.last_stable(), log.log_end());
        ensure!(is_open || stable == end, "{}: nothing is open, and {stable} is not {end}", partition.name());
        let mut batch = batch::Builder::new();
        batch.push(0, Some(b"a"), Some(b"later"));
        let append = levada_base::Append::coordinator(batch.build().map_err(|error| error.to_string())?);
        if partition.is_internal() {
            continue;
        }
        let appended = now.run(async { partition.append(append, 0).wait().await });
        let appended = appended.map_err(|error| format!("{}: {error}", partition.name()))?;
        ensure!(appended.base_offset == end, "{}: appended at {}", partition.name(), appended.base_offset);
    }
    Ok(())
}

/// Ends, as an operator does, the transactions in a partition that their coordinator does not know
/// to be open: without what it had acknowledged they hang, in Kafka as well.
fn end_hanging(now: &Incarnation, partition: &Arc<Partition>, ongoing: &BTreeSet<i64>) -> Check {
    for state in states(partition)?.iter().filter(|state| state.transaction_start.is_some()) {
        if ongoing.contains(&state.producer_id) {
            continue;
        }
        let end = EndTxnRequest {
            producer: Producer { id: state.producer_id, epoch: state.epoch },
            coordinator_epoch: state.coordinator_epoch.max(0),
            commit: false,
            transaction_version: 0,
        };
        let until = Instant::now() + MARKER_WAIT;
        let written = now.run(now.broker.transactions().write_marker(partition, end, until));
        written.map_err(|error| format!("{}: {state:?} is not ended: {error:?}", partition.name()))?;
    }
    Ok(())
}

/// The logs' ends by name.
pub(super) fn ends(broker: &Broker) -> BTreeMap<String, i64> {
    broker
        .replicas()
        .partitions()
        .all()
        .iter()
        .map(|partition| (partition.name(), partition.log().log_end()))
        .collect()
}
