//! All partitions that are followed from one leader over one connection: one Fetch is in flight at
//! a time, in a fetch session.
//!
//! [`Fetcher::poll`] returns the next request, [`Fetcher::answered`] processes the response and
//! returns the tasks for the logs, and [`Fetcher::done`] takes the outcome of each. Partitions that
//! had records are last in the next full request, so that the size limit of a response starves
//! none.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use levada_wire::Uuid;
use levada_wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic};
use levada_wire::messages::StrBytes;

use self::session::{Session, SessionAnswer, SessionFault, SessionRequest};
use super::follower::{Asked, FollowedLog, Follower, LogEnd, Outcome, Task};

pub mod session;
#[cfg(test)]
mod tests;

/// The pause after the same batches were refused again and again is up to 2 to this power times
/// [`FetcherConfig::backoff_ms`].
const MOST_DOUBLINGS: u32 = 4;

/// Topic id and index of a partition.
pub type PartitionKey = (Uuid, i32);

/// Identity and limits of a fetcher.
#[derive(Clone, Debug)]
pub struct FetcherConfig {
    /// This broker's id.
    pub node_id: i32,
    /// Longest wait of the leader for `min_bytes`, ms.
    pub max_wait_ms: i32,
    /// Bytes of records that the leader waits for, up to `max_wait_ms`.
    pub min_bytes: i32,
    /// Requested limit of a response, in bytes.
    pub max_bytes: i32,
    /// Requested limit of one partition in a response, in bytes.
    pub partition_max_bytes: i32,
    /// The pause after a failure, ms.
    pub backoff_ms: i64,
}

/// State of this broker and of its logs that a request needs.
pub trait Local {
    /// The epoch of this broker's registration, -1 if unknown.
    fn broker_epoch(&self) -> i64;

    /// The state of the partition's log. Throttling leaves it out while it is not in sync.
    fn readiness(&self, partition: &PartitionKey, is_in_sync: bool) -> Readiness;
}

/// State of a partition's log before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The task is done, and more records may be available.
    Ready {
        /// First offset of the log.
        log_start: i64,
    },
    /// Throttling omits the partition from requests for this time.
    Throttled {
        /// Time in ms. The fetcher waits at most [`FetcherConfig::backoff_ms`], so that it notices
        /// a change of the throttle.
        pause_ms: i64,
    },
    /// The log does not exist.
    Missing,
}

/// A task for the log of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct FetcherTask {
    /// Partition of the task.
    pub partition: PartitionKey,
    /// The leader epoch in which the log must still follow.
    pub leader_epoch: i32,
    /// The end that the log must still have.
    pub end: LogEnd,
    /// Work to be done on the partition.
    pub task: Task,
    turn: u64,
}

/// The partitions followed from one leader.
#[derive(Debug)]
pub struct Fetcher {
    config: FetcherConfig,
    session: Session,
    partitions: HashMap<PartitionKey, Followed>,
    /// The order of the partitions in a full request.
    order: BTreeMap<u64, PartitionKey>,
    next_place: u64,
    is_in_flight: bool,
    is_full: bool,
}

#[derive(Debug)]
struct Followed {
    follower: Follower,
    place: u64,
    /// Distinguishes tasks of this partition from those of an earlier time at which it was
    /// followed.
    turn: u64,
}

impl Fetcher {
    /// A fetcher that follows nothing yet.
    pub fn new(config: FetcherConfig) -> Self {
        Self {
            config,
            session: Session::default(),
            partitions: HashMap::new(),
            order: BTreeMap::new(),
            next_place: 0,
            is_in_flight: false,
            is_full: true,
        }
    }

    /// Follows a partition in this leader epoch, from the end of its log on. A partition that is
    /// already followed in this epoch continues unchanged, unless it was halted.
    pub fn follow(
        &mut self,
        partition: PartitionKey,
        leader_epoch: i32,
        log: FollowedLog,
    ) -> Option<FetcherTask> {
        let held = self.partitions.get(&partition).map(|followed| &followed.follower);
        if held.is_some_and(|held| held.leader_epoch() == leader_epoch && held.halt().is_none()) {
            return None;
        }
        self.forget(&partition);
        let (follower, task) = Follower::new(leader_epoch, log);
        let turn = self.next_place;
        self.order.insert(turn, partition);
        self.next_place += 1;
        self.partitions.insert(partition, Followed { follower, place: turn, turn });
        task.map(|task| FetcherTask { partition, leader_epoch, end: log.end, task, turn })
    }

    /// Follows a partition no more.
    pub fn forget(&mut self, partition: &PartitionKey) {
        if let Some(followed) = self.partitions.remove(partition) {
            self.order.remove(&followed.place);
        }
    }

    /// The partitions that are followed, in no order.
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = (&PartitionKey, &Follower)> {
        self.partitions.iter().map(|(key, followed)| (key, &followed.follower))
    }

    /// The next request; none while one is in flight, or while no partition may be fetched.
    pub fn poll(&mut self, local: &impl Local, now_ms: i64) -> Option<FetchRequest> {
        if self.is_in_flight {
            return None;
        }
        let retry_ms = now_ms.saturating_add(self.config.backoff_ms);
        let mut wanted = Vec::with_capacity(self.partitions.len());
        for key in self.order.values() {
            let Some(Followed { follower, .. }) = self.partitions.get_mut(key) else { continue };
            let Some(asked) = follower.wanted(now_ms) else { continue };
            match local.readiness(key, follower.is_in_sync()) {
                Readiness::Ready { log_start } => {
                    wanted.push((*key, fetch_partition(&self.config, key.1, asked, log_start)))
                }
                Readiness::Throttled { pause_ms } => {
                    follower.delay(now_ms.saturating_add(pause_ms).min(retry_ms));
                }
                Readiness::Missing => follower.delay(retry_ms),
            }
        }
        let is_idle = wanted.is_empty();
        let request = self.session.request(wanted);
        if is_idle && request.forget.is_empty() {
            return None;
        }
        self.is_in_flight = true;
        self.is_full = request.epoch == 0;
        Some(self.frame(request, local.broker_epoch()))
    }

    /// The time at which to poll again without any news; none while a request is in flight.
    pub fn deadline(&self) -> Option<i64> {
        let delayed = self.partitions.values().filter_map(|followed| followed.follower.delayed_until());
        delayed.min().filter(|_| !self.is_in_flight)
    }

    /// Processes the response to the request in flight, and returns the tasks for the logs.
    ///
    /// # Errors
    /// The response does not count. The next request opens a session.
    pub fn answered(
        &mut self,
        response: FetchResponse<Bytes>,
        now_ms: i64,
    ) -> Result<Vec<FetcherTask>, SessionFault> {
        self.is_in_flight = false;
        let answer = SessionAnswer { error_code: response.error_code, id: response.session_id };
        let topics = response.topics.into_iter();
        let answers: Vec<_> = topics
            .flat_map(|topic| topic.partitions.into_iter().map(move |one| ((topic.topic_id, one.index), one)))
            .collect();
        if let Err(fault) = self.session.answered(answer, answers.iter().map(|(key, _)| key)) {
            // A session that the leader does not have is opened immediately.
            if self.is_full {
                self.delay_all(now_ms);
            }
            return Err(fault);
        }
        let retry_ms = now_ms.saturating_add(self.config.backoff_ms);
        let mut tasks = Vec::with_capacity(answers.len());
        for (key, answer) in answers {
            let Some(asked) = self.session.asked(&key) else { continue };
            let Some(followed) = self.partitions.get_mut(&key) else { continue };
            let asked = Asked {
                leader_epoch: asked.current_leader_epoch,
                offset: asked.fetch_offset,
                last_epoch: asked.last_fetched_epoch,
            };
            if answer.records.is_some() {
                self.order.remove(&followed.place);
                followed.place = self.next_place;
                self.order.insert(followed.place, key);
                self.next_place += 1;
            }
            let task = followed.follower.answered(asked, answer, retry_ms);
            tasks.extend(task.map(|task| followed.task(key, task)));
        }
        Ok(tasks)
    }

    /// Processes the failure of the request in flight: every partition waits.
    pub fn failed(&mut self, now_ms: i64) {
        self.is_in_flight = false;
        self.session.lost();
        self.delay_all(now_ms);
    }

    /// Processes the outcome of a task, which may lead to another task.
    pub fn done(&mut self, task: &FetcherTask, outcome: Outcome, now_ms: i64) -> Option<FetcherTask> {
        let followed = self.partitions.get_mut(&task.partition)?;
        if followed.turn != task.turn {
            return None;
        }
        let retry_ms = now_ms.saturating_add(self.config.backoff_ms);
        let next = followed.follower.done(&task.task, outcome, retry_ms);
        // Every attempt transfers the batches again.
        let doublings = followed.follower.setbacks().saturating_sub(1).min(MOST_DOUBLINGS);
        if doublings > 0 {
            followed.follower.delay(now_ms.saturating_add(self.config.backoff_ms << doublings));
        }
        next.map(|next| followed.task(task.partition, next))
    }

    fn delay_all(&mut self, now_ms: i64) {
        let until_ms = now_ms.saturating_add(self.config.backoff_ms);
        self.partitions.values_mut().for_each(|followed| followed.follower.delay(until_ms));
    }

    fn frame(&self, request: SessionRequest, broker_epoch: i64) -> FetchRequest {
        FetchRequest {
            cluster_id: None,
            replica_id: self.config.node_id,
            replica_epoch: broker_epoch,
            max_wait_ms: self.config.max_wait_ms,
            min_bytes: self.config.min_bytes,
            max_bytes: self.config.max_bytes,
            isolation_level: 0,
            session_id: request.id,
            session_epoch: request.epoch,
            topics: topics(request.send),
            forgotten: forgotten(request.forget),
            rack_id: StrBytes::default(),
        }
    }
}

impl Followed {
    fn task(&self, partition: PartitionKey, task: Task) -> FetcherTask {
        let (leader_epoch, end) = (self.follower.leader_epoch(), self.follower.end());
        FetcherTask { partition, leader_epoch, end, task, turn: self.turn }
    }
}

fn fetch_partition(config: &FetcherConfig, index: i32, asked: Asked, log_start: i64) -> FetchPartition {
    FetchPartition {
        index,
        current_leader_epoch: asked.leader_epoch,
        fetch_offset: asked.offset,
        last_fetched_epoch: asked.last_epoch,
        log_start_offset: log_start,
        max_bytes: config.partition_max_bytes,
        // Only the metadata log uses these two.
        replica_directory_id: Uuid::ZERO,
        high_watermark: i64::MAX,
    }
}

/// Neighbours of one topic share an entry.
fn topics(partitions: Vec<(PartitionKey, FetchPartition)>) -> Vec<FetchTopic> {
    let mut topics: Vec<FetchTopic> = Vec::new();
    for ((topic_id, _), partition) in partitions {
        match topics.last_mut().filter(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(partition),
            None => {
                topics.push(FetchTopic { topic_id, partitions: vec![partition], ..FetchTopic::default() })
            }
        }
    }
    topics
}

fn forgotten(partitions: Vec<PartitionKey>) -> Vec<ForgottenTopic> {
    let mut topics: Vec<ForgottenTopic> = Vec::new();
    for (topic_id, index) in partitions {
        match topics.last_mut().filter(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(index),
            None => {
                topics.push(ForgottenTopic { topic_id, partitions: vec![index], ..ForgottenTopic::default() })
            }
        }
    }
    topics
}
