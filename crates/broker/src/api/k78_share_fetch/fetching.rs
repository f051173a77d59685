//! The fetch of one request: claims the partitions of the session, reads them, acquires records,
//! and waits if there are too few.

use std::sync::Arc;
use std::time::Duration;

use levada_coordination::share_partition::{AcquireMode, AcquireRequest};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::ShareFetchRequest;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Sharing;
use super::acquiring::{Acquired, Found};
use super::reading::{NotFound, Reading};
use crate::api::Context;
use crate::api::share_acks::Topics;
use crate::error_map::read_error;
use crate::replica::Partition;
use crate::share;
use crate::share_partitions::{
    Claim, FetchLease, MemberKey, PartitionPlace, ShareEntry, ShareGroup, ShareRefusal,
};
use crate::time_slice::TimeSlice;

/// Way to acquire by which the number of records is a limit.
const RECORD_LIMIT: i8 = 1;

/// Number of lookups that one request makes without a wait.
const LOOKS_MAX: u32 = 64;

/// Conditions of a fetch.
pub(super) struct Terms {
    bytes_max: u32,
    bytes_min: u64,
    wait: Duration,
    acquire: AcquireRequest,
    group: Arc<ShareGroup>,
}

impl Terms {
    pub(super) fn of(context: &Context, request: &ShareFetchRequest, member: &MemberKey) -> Self {
        let broker = context.broker();
        // A quota below a byte still lets a batch through, and mutes the client for long.
        let quota_bytes = broker.quotas().answer_bytes_max(context.client()).max(1);
        let bytes_max = request.max_bytes.max(0).unsigned_abs();
        let bytes_max = bytes_max.min(broker.config().fetch_max_bytes).min(quota_bytes);
        let mode = match request.share_acquire_mode {
            RECORD_LIMIT => AcquireMode::Records,
            _ => AcquireMode::Batches,
        };
        Self {
            bytes_max,
            bytes_min: u64::from(request.min_bytes.max(0).unsigned_abs().min(bytes_max)),
            wait: context.patience(request.max_wait_ms),
            acquire: AcquireRequest {
                member: member.member.clone(),
                mode,
                max_records: request.max_records,
                batch_size: request.batch_size,
            },
            group: broker.share_partitions().group(&member.group),
        }
    }

    /// True if the request cannot get records.
    fn are_empty(&self) -> bool {
        self.bytes_max == 0 || self.acquire.max_records <= 0
    }
}

/// The result for one partition.
pub(super) type Fetched = Result<Acquired, ErrorCode>;

/// A partition of the fetch.
struct Target {
    key: PartitionPlace,
    entry: Result<Arc<ShareEntry>, ErrorCode>,
    result: Option<Fetched>,
}

/// A partition whose fetch lock this fetch holds: its index among the targets, the range to read,
/// and the number of records that can be acquired if none of them was acquired before.
struct Claimed {
    at: usize,
    lease: FetchLease,
    reading: Reading,
    new_max: Option<i64>,
}

/// Outcome of one lookup of all partitions.
enum Look {
    /// The fetch is complete.
    Done,
    /// An earlier lookup found no records for the client; there may be some now.
    Again,
    /// There are fewer bytes than the client requested: the fetch waits.
    Wait,
}

/// A fetch.
pub(super) struct Fetch<'a> {
    context: &'a Context,
    sharing: &'a Sharing,
    terms: Terms,
    number: u64,
    sleeper: Arc<Notify>,
    targets: Vec<Target>,
}

impl<'a> Fetch<'a> {
    pub(super) fn new(context: &'a Context, sharing: &'a Sharing, terms: Terms) -> Self {
        let number = context.broker().share_partitions().number_fetch();
        Self { context, sharing, terms, number, sleeper: Arc::default(), targets: Vec::new() }
    }

    /// Acquires records, waiting for them if there are too few. The partitions that the fetch has
    /// read or that have an error, in the order of the session.
    pub(super) async fn run(mut self, slice: &mut TimeSlice) -> Vec<(PartitionPlace, Fetched)> {
        self.resolve(slice).await;
        if !self.terms.are_empty() && self.targets.iter().any(|target| target.entry.is_ok()) {
            self.look_until_enough(slice).await;
        }
        let told = self.targets.into_iter().filter_map(|target| match target.entry {
            Err(error) => Some((target.key, Err(error))),
            Ok(_) => Some((target.key, target.result?)),
        });
        told.collect()
    }

    /// Finds the entries of the partitions.
    async fn resolve(&mut self, slice: &mut TimeSlice) {
        let mut topics = Topics::default();
        self.targets.reserve_exact(self.sharing.partitions.len());
        for key in &self.sharing.partitions {
            let led = topics.led(self.context, *key);
            let provide = |partition: Arc<Partition>| {
                share::partitions::provide(self.context.broker(), &partition, &self.sharing.member.group)
            };
            let entry =
                if self.terms.are_empty() { led.map(|_| None) } else { led.and_then(provide).map(Some) };
            match entry {
                Ok(Some(entry)) => self.targets.push(Target { key: *key, entry: Ok(entry), result: None }),
                Ok(None) => {}
                Err(error) => self.targets.push(Target { key: *key, entry: Err(error), result: None }),
            }
            slice.yield_if_over().await;
        }
    }

    async fn look_until_enough(&mut self, slice: &mut TimeSlice) {
        let deadline = Instant::now() + self.terms.wait;
        let mut is_last = self.terms.wait.is_zero();
        let (mut registered, mut looks) = (Vec::new(), 0);
        loop {
            looks += 1;
            match self.look(is_last).await {
                Look::Done => return,
                Look::Again if looks < LOOKS_MAX => {
                    slice.yield_if_over().await;
                    continue;
                }
                Look::Again | Look::Wait if is_last => return,
                Look::Again | Look::Wait => {}
            }
            if registered.is_empty() {
                self.context.wait_for_others();
                for entry in self.targets.iter().filter_map(|target| target.entry.as_ref().ok()) {
                    registered.push(entry.waiters().register(&self.sleeper));
                    registered.push(entry.partition().waiters().register(&self.sleeper));
                }
                continue;
            }
            looks = 0;
            tokio::select! {
                () = self.sleeper.notified() => {}
                () = tokio::time::sleep_until(deadline) => is_last = true,
                () = self.context.stop().signalled() => is_last = true,
            }
        }
    }

    /// Claims the partitions, reads them, and acquires records if there are enough, or if this is
    /// the last lookup.
    async fn look(&mut self, is_last: bool) -> Look {
        self.targets.iter_mut().for_each(|target| target.result = None);
        let mut is_urgent = false;
        let claims = self.claim(is_last, &mut is_urgent);
        let (found, has_moved) = self.read(claims, &mut is_urgent).await;
        let bytes: u64 = found.iter().map(|one| one.range.len()).sum();
        let is_enough = found.iter().any(|one| one.range.is_final())
            || !found.is_empty() && bytes >= self.terms.bytes_min;
        if has_moved && !is_urgent && !is_last && !is_enough {
            return Look::Again;
        }
        if !is_enough && !is_last && !is_urgent {
            return Look::Wait;
        }
        let (count, has_moved) = self.acquire(found).await;
        let has_failed = self.targets.iter().any(|target| matches!(target.result, Some(Err(_))));
        match count {
            0 if !has_failed && has_moved => Look::Again,
            0 if !has_failed && !is_last && !is_urgent && self.terms.bytes_min > 0 => Look::Wait,
            _ => Look::Done,
        }
    }

    /// Acquires the fetch locks that are free, with the offsets to read from.
    fn claim(&mut self, is_last: bool, is_urgent: &mut bool) -> Vec<Claimed> {
        let mut claims = Vec::new();
        for (at, target) in self.targets.iter_mut().enumerate() {
            let Ok(entry) = &target.entry else { continue };
            let log = entry.partition().shared_log();
            let committed_only = self.terms.group.settings.committed_only;
            let upto = if committed_only { log.last_stable() } else { log.high_watermark() };
            let wanted = (!is_last && self.terms.bytes_min > 0).then_some(upto);
            match entry.claim((self.number, &self.sleeper), &self.terms.group, wanted) {
                Claim::Taken { lease, offset, new_max } => {
                    let partition = (entry.partition().topic_id(), entry.partition().index());
                    let reading = Reading {
                        partition,
                        log,
                        offset,
                        max_bytes: 0,
                        upto,
                        min_one: false,
                        committed_only,
                    };
                    claims.push(Claimed { at, lease, reading, new_max });
                }
                Claim::Later => {}
                // As in Kafka, a response with records tells of partitions without records as well.
                Claim::Empty => target.result = Some(Ok(Acquired::default())),
                Claim::Full if is_last => target.result = Some(Err(ErrorCode::UnknownServerError)),
                Claim::Full => {}
                Claim::Refused(ShareRefusal::Code(code)) => {
                    *is_urgent |= is_final(code);
                    target.result = Some(Err(code));
                }
                // The next request gets another entry.
                Claim::Refused(ShareRefusal::Ended) => *is_urgent = true,
            }
        }
        claims
    }

    /// Reads the ranges of the claimed partitions, each of them up to its share of the bytes.
    /// Returns true as well if the log of one begins later than its share partition did.
    async fn read(&mut self, claims: Vec<Claimed>, is_urgent: &mut bool) -> (Vec<Found>, bool) {
        let (mut found, mut has_moved) = (Vec::with_capacity(claims.len()), false);
        let shares = u32::try_from(claims.len().max(1)).unwrap_or(u32::MAX);
        let (share, mut rest) = (self.terms.bytes_max / shares, self.terms.bytes_max % shares);
        let mut is_first = true;
        let broker = self.context.broker();
        let wait_ms = broker.config().remote_log.fetch_max_wait_ms.unsigned_abs();
        let until = Instant::now() + Duration::from_millis(u64::from(wait_ms));
        for Claimed { at, lease, mut reading, new_max } in claims {
            reading.max_bytes = share + std::mem::take(&mut rest);
            reading.min_one = is_first;
            match reading.find(broker.remote_reads(), until).await {
                Ok(range) => {
                    is_first &= range.len() == 0;
                    found.push(Found { at, lease, reading, range, new_max });
                }
                Err(NotFound::OutOfRange) => has_moved |= lease.log_start_moved(reading.log.log_start()),
                // The client's next request finds the records that have arrived until then.
                Err(NotFound::Late) => *is_urgent = true,
                Err(NotFound::Error(error)) => {
                    *is_urgent = true;
                    self.targets[at].result = Some(Err(error));
                }
            }
        }
        (found, has_moved)
    }

    /// Acquires records of the ranges, in the order of the partitions. Returns their number, and
    /// true if another lookup may find more.
    async fn acquire(&mut self, found: Vec<Found>) -> (i64, bool) {
        let (mut count, mut has_moved) = (0, false);
        for one in found {
            let left = i64::from(self.terms.acquire.max_records) - count;
            if left <= 0 {
                break;
            }
            let mut result = Ok(Acquired::default());
            if one.range.len() > 0 {
                let max_records = i32::try_from(left).unwrap_or(i32::MAX);
                let request = AcquireRequest { max_records, ..self.terms.acquire.clone() };
                result = one.acquire(&request, &self.terms.group).await.map_err(read_error);
            }
            if let Ok(acquired) = &result {
                count += acquired.count;
                has_moved |= acquired.has_moved;
            }
            self.targets[one.at].result = Some(result);
        }
        (count, has_moved)
    }
}

/// True if the client is to know the error immediately: it finds another leader. Kafka's consumer
/// repeats a fetch with another error without a pause.
fn is_final(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch | ErrorCode::KafkaStorageError
    )
}
