//! A thread that follows one leader: it drives a `Fetcher` with a blocking connection, and does the
//! tasks on the logs between two requests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, slice, thread};

use bytes::Bytes;
use levada_cluster::Target;
use levada_cluster::replication::Fetcher;
use levada_cluster::replication::fetcher::{FetcherConfig, FetcherTask, Local, PartitionKey, Readiness};
use levada_cluster::replication::follower::{Bound, Outcome, Task};
use levada_process::clock::steady_ms;
use levada_process::tasks::{RESTART_PAUSE, guarded};
use levada_wire::StrBytes;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::FetchResponse;
use levada_wire::messages::ListOffsetsRequest;
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::list_offsets_response::ListOffsetsPartitionResponse;
use parking_lot::{Condvar, Mutex};

use super::{Rooms, Totals, WorkerId};
use crate::cluster::connection::{Connection, Cutoff, Peers, broker_target};
use crate::replica::Partition;

/// Timestamps of ListOffsets that mean the ends of a log.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const EARLIEST_LOCAL: i64 = -4;
/// Timestamp in ListOffsets for the first record that is not in remote storage.
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A change of the partitions that a thread follows.
pub(super) enum Command {
    Follow(PartitionKey),
    Forget(PartitionKey),
}

/// A thread, as the others see it.
pub(super) struct Worker {
    shared: Arc<Shared>,
    cutoff: Cutoff,
    thread: JoinHandle<()>,
    /// Id of the leader that it follows.
    leader: i32,
    /// Number of partitions that fall to it.
    pub(super) partitions: usize,
}

#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    news: Condvar,
    lags: Mutex<Vec<(PartitionKey, i64)>>,
}

#[derive(Default)]
struct Inbox {
    commands: Vec<Command>,
    /// Partitions that the thread is to follow.
    followed: BTreeSet<PartitionKey>,
    is_ending: bool,
}

impl Worker {
    pub(super) fn start((rooms, totals): (Rooms, Arc<Totals>), id: WorkerId) -> io::Result<Self> {
        let WorkerId { leader, is_in_sync, number } = id;
        let work = if is_in_sync { "fetch" } else { "catch-up" };
        let (shared, cutoff) = (Arc::<Shared>::default(), Cutoff::default());
        let config = rooms.config.load();
        let node_id = config.node_id;
        let limits = config.cluster.as_ref().expect("only a broker in a cluster follows others").replication;
        drop(config);
        let (own, end) = (shared.clone(), cutoff.clone());
        let begin = move || {
            let fetcher = Fetcher::new(FetcherConfig {
                node_id,
                max_wait_ms: limits.max_wait_ms,
                min_bytes: limits.min_bytes,
                max_bytes: limits.max_bytes,
                partition_max_bytes: limits.partition_max_bytes,
                backoff_ms: limits.backoff_ms.max(1),
            });
            let link = (limits.socket_timeout, end.clone());
            let purpose = if is_in_sync { format!("fetcher-{number}") } else { format!("catch-up-{number}") };
            let connection = Connection::new(rooms.config.clone(), Peers::Brokers, purpose, link);
            let (rooms, totals, partitions) = (rooms.clone(), totals.clone(), HashMap::new());
            Follow { rooms, totals, leader, fetcher, partitions, connection, shared: own.clone() }
        };
        let (name, own) = (format!("{work}-{leader}-{number}"), shared.clone());
        let builder = thread::Builder::new().name(name.clone());
        let thread = builder.spawn(move || own.run(&name, || begin().run()))?;
        Ok(Self { shared, cutoff, thread, leader, partitions: 0 })
    }

    /// A thread without work.
    #[cfg(test)]
    pub(super) fn idle() -> Self {
        let (shared, cutoff) = (Arc::<Shared>::default(), Cutoff::default());
        Self { shared, cutoff, thread: thread::spawn(|| ()), leader: 0, partitions: 0 }
    }

    pub(super) fn tell(&self, command: Command) {
        self.shared.tell(command);
    }

    pub(super) fn lags(&self) -> Vec<(PartitionKey, i64)> {
        self.shared.lags.lock().clone()
    }

    /// Ends the thread, without a wait for the response of its leader.
    pub(super) fn end(&self) {
        self.shared.inbox.lock().is_ending = true;
        self.shared.news.notify_one();
        self.cutoff.close();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(super) fn join(self) {
        let name = self.thread.thread().name().unwrap_or_default().to_owned();
        if self.thread.join().is_err() {
            tracing::error!(thread = name, leader = self.leader, "a replica fetcher thread has panicked");
        }
    }
}

impl Shared {
    fn tell(&self, command: Command) {
        let mut inbox = self.inbox.lock();
        match &command {
            Command::Follow(partition) => inbox.followed.insert(*partition),
            Command::Forget(partition) => inbox.followed.remove(partition),
        };
        inbox.commands.push(command);
        self.news.notify_one();
    }

    /// Does the thread's work. After a panic the work restarts with the partitions of the thread:
    /// all state of a follower is in its log.
    fn run(&self, name: &str, mut work: impl FnMut()) {
        while guarded(name, &mut work).is_err() {
            let mut inbox = self.inbox.lock();
            if !inbox.is_ending {
                self.news.wait_for(&mut inbox, RESTART_PAUSE);
            }
            inbox.commands = inbox.followed.iter().copied().map(Command::Follow).collect();
        }
    }
}

/// State of the thread.
pub(super) struct Follow {
    pub(super) rooms: Rooms,
    totals: Arc<Totals>,
    pub(super) leader: i32,
    fetcher: Fetcher,
    /// The partitions that the fetcher follows. A partition that is no longer served refuses every
    /// task.
    pub(super) partitions: HashMap<PartitionKey, Arc<Partition>>,
    pub(super) connection: Connection,
    shared: Arc<Shared>,
}

impl Follow {
    fn run(mut self) {
        loop {
            let commands = {
                let mut inbox = self.shared.inbox.lock();
                if inbox.is_ending {
                    return;
                }
                std::mem::take(&mut inbox.commands)
            };
            commands.into_iter().for_each(|command| self.take(&command));
            // The next fetch shows log starts to the leader. A failure is in the log.
            let _ = self.rooms.replicas.checkpoints().store_misleading();
            match self.fetcher.poll(&self.rooms, steady_ms()) {
                Some(request) => {
                    let target = self.target();
                    let answer = target.and_then(|target| self.connection.fetch(&target, &request));
                    self.answered(answer);
                }
                None => self.await_news(),
            }
            self.publish();
        }
    }

    fn take(&mut self, command: &Command) {
        match command {
            Command::Forget(partition) => self.forget(partition),
            Command::Follow(partition) => {
                match self.rooms.replicas.follower_tasks().follow_start(partition, self.leader) {
                    None => self.forget(partition),
                    Some(start) => {
                        let held = self.partitions.insert(*partition, start.partition.clone());
                        if held.is_some_and(|held| !Arc::ptr_eq(&held, &start.partition)) {
                            // The replica was removed and added again with another log.
                            self.fetcher.forget(partition);
                        }
                        let task = self.fetcher.follow(*partition, start.leader_epoch, start.log);
                        task.into_iter().for_each(|task| self.work(task));
                    }
                }
            }
        }
    }

    fn forget(&mut self, partition: &PartitionKey) {
        self.fetcher.forget(partition);
        self.partitions.remove(partition);
    }

    fn answered(&mut self, answer: Option<FetchResponse<Bytes>>) {
        let Some(answer) = answer else {
            self.totals.errors.fetch_add(1, Ordering::Relaxed);
            return self.fetcher.failed(steady_ms());
        };
        for (topic, partition) in
            answer.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |one| (topic, one)))
        {
            let bytes = partition.records.as_ref().map_or(0, Bytes::len);
            self.totals.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            if partition.error_code != 0 {
                self.totals.errors.fetch_add(1, Ordering::Relaxed);
                let (leader, topic, index) = (self.leader, topic.topic_id, partition.index);
                let error = partition.error_code;
                tracing::debug!(leader, ?topic, index, error, "the leader refuses a fetch of a partition");
            }
        }
        match self.fetcher.answered(answer, steady_ms()) {
            Ok(tasks) => self.work_all(tasks),
            Err(fault) => {
                self.totals.errors.fetch_add(1, Ordering::Relaxed);
                tracing::info!(leader = self.leader, ?fault, "a fetch session with the leader is restarted");
            }
        }
    }

    /// Performs the tasks of a response. One request fetches all offsets of the leader that they
    /// need.
    fn work_all(&mut self, tasks: Vec<FetcherTask>) {
        let is_request = |task: &FetcherTask| matches!(task.task, Task::Locate(_));
        let (requests, others): (Vec<_>, Vec<_>) = tasks.into_iter().partition(is_request);
        others.into_iter().for_each(|task| self.work(task));
        if requests.is_empty() {
            return;
        }
        let located = self.locate(&requests);
        for (task, outcome) in requests.iter().zip(located) {
            let next = self.fetcher.done(task, outcome, steady_ms());
            next.into_iter().for_each(|next| self.work(next));
        }
    }

    /// Carries out a task and its follow-up tasks.
    fn work(&mut self, task: FetcherTask) {
        self.count(&task);
        let mut next = Some(task);
        while let Some(task) = next {
            let outcome = match &task.task {
                Task::Locate(_) => self.locate(slice::from_ref(&task))[0],
                Task::Rebuild(start) => self.rebuild(&task, *start),
                other => match self.partitions.get(&task.partition) {
                    None => Outcome::Superseded,
                    Some(partition) => {
                        let decided_in = (task.leader_epoch, task.end);
                        self.rooms.replicas.follower_tasks().carry_out(partition, decided_in, other)
                    }
                },
            };
            next = self.fetcher.done(&task, outcome, steady_ms());
        }
    }

    /// Counts the received bytes against the follower's throttle.
    fn count(&self, task: &FetcherTask) {
        if let (Task::Append { records, .. }, Some(partition)) =
            (&task.task, self.partitions.get(&task.partition))
        {
            let throttle = &self.rooms.replicas.replication().throttles().follower;
            throttle.record(partition, records.len() as u64);
        }
    }

    /// Requests the ends of the leader's logs that tasks need. One outcome for each of them.
    fn locate(&mut self, tasks: &[FetcherTask]) -> Vec<Outcome> {
        if !self.rooms.config.load().remote_log.follower_begins_late {
            return self.locate_as(tasks, false);
        }
        let mut outcomes = self.locate_as(tasks, true);
        for (outcome, task) in outcomes.iter_mut().zip(tasks) {
            // No record of the log waits for its copy, or the leader cannot tell: the replica
            // begins with the local records.
            let has_none = match *outcome {
                Outcome::LocatedLocal(offset, _) => offset < 0,
                Outcome::Refused(code) => code == ErrorCode::OffsetNotAvailable.code(),
                _ => false,
            };
            if has_none && let Some(local) = self.locate_as(std::slice::from_ref(task), false).pop() {
                *outcome = local;
            }
        }
        outcomes
    }

    /// As [`Self::locate`]; with `begins_late`, an empty log begins with the leader's first record
    /// that is not copied.
    fn locate_as(&mut self, tasks: &[FetcherTask], begins_late: bool) -> Vec<Outcome> {
        let image = self.rooms.metadata.image();
        let name_of = |task: &FetcherTask| image.topic_by_id(task.partition.0).map(|topic| topic.name());
        let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for task in tasks {
            let (Some(name), Task::Locate(bound)) = (name_of(task), &task.task) else { continue };
            let mut partition = ListOffsetsPartition::default();
            (partition.partition_index, partition.current_leader_epoch) =
                (task.partition.1, task.leader_epoch);
            partition.timestamp = match bound {
                Bound::Latest => LATEST,
                Bound::Earliest => EARLIEST,
                Bound::EarliestLocal { .. } if begins_late && task.end.offset == 0 => EARLIEST_PENDING_UPLOAD,
                Bound::EarliestLocal { .. } => EARLIEST_LOCAL,
            };
            topics.entry(name).or_default().push(partition);
        }
        let mut request = ListOffsetsRequest::default();
        request.replica_id = self.rooms.config.load().node_id;
        request.topics.extend(topics.into_iter().map(|(name, partitions)| {
            let mut topic = ListOffsetsTopic::default();
            (topic.name, topic.partitions) = (StrBytes::from(name), partitions);
            topic
        }));
        let target = self.target().filter(|_| !request.topics.is_empty());
        let answer =
            target.and_then(|target| self.connection.request(&target, controller::LIST_OFFSETS, &request));
        let answers: HashMap<(&str, i32), &ListOffsetsPartitionResponse> = answer
            .iter()
            .flat_map(|answer| &answer.topics)
            .flat_map(|topic| {
                topic.partitions.iter().map(|one| ((topic.name.as_str(), one.partition_index), one))
            })
            .collect();
        let outcome = |task: &FetcherTask| {
            let Some(name) = name_of(task) else { return Outcome::Superseded };
            match answers.get(&(name, task.partition.1)) {
                None => Outcome::Refused(ErrorCode::RequestTimedOut.code()),
                Some(found) if found.error_code != 0 => Outcome::Refused(found.error_code),
                Some(found) => match task.task {
                    Task::Locate(Bound::EarliestLocal { .. }) => {
                        Outcome::LocatedLocal(found.offset, found.leader_epoch)
                    }
                    _ => Outcome::Located(found.offset),
                },
            }
        };
        tasks.iter().map(outcome).collect()
    }

    /// Address of the leader.
    pub(super) fn target(&self) -> Option<Target> {
        broker_target(&self.rooms.config.load(), &self.rooms.metadata.image(), self.leader)
    }

    fn await_news(&self) {
        let mut inbox = self.shared.inbox.lock();
        if !inbox.commands.is_empty() || inbox.is_ending {
            return;
        }
        match self.fetcher.deadline() {
            None => self.shared.news.wait(&mut inbox),
            Some(deadline) => {
                let wait = Duration::from_millis((deadline - steady_ms()).max(0).unsigned_abs());
                self.shared.news.wait_for(&mut inbox, wait);
            }
        }
    }

    fn publish(&self) {
        let partitions = self.fetcher.partitions();
        let lags = partitions.map(|(key, follower)| (*key, follower.lag().unwrap_or(-1)));
        *self.shared.lags.lock() = lags.collect();
    }
}

impl Local for Rooms {
    fn broker_epoch(&self) -> i64 {
        self.membership.broker_epoch().unwrap_or(-1)
    }

    fn readiness(&self, (topic, index): &PartitionKey, is_in_sync: bool) -> Readiness {
        let Some(partition) = self.replicas.partitions().by_id(*topic, *index) else {
            return Readiness::Missing;
        };
        let throttle = &self.replicas.replication().throttles().follower;
        if let Some(pause_ms) = throttle.pause_ms(&partition).filter(|_| !is_in_sync) {
            return Readiness::Throttled { pause_ms };
        }
        match self.replicas.follower_tasks().prepare_fetch(&partition) {
            Some(log_start) => Readiness::Ready { log_start },
            None => Readiness::Missing,
        }
    }
}

#[cfg(test)]
mod tests;
