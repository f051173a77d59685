//! The node's side of the simulation: metadata, the role of the partition, and the work of leaders
//! and followers, by the machines and on a real log. It does what the broker does around them.

use bytes::{Bytes, BytesMut};
use levada_base::batch::{self, BatchView};
use levada_log::{ANY_LEADER_EPOCH, Append, AppendError, Partition, ReplicaSource};
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{
    EpochEnd, FetchPartition, FetchRequest, FetchResponse, FetchedPartition, FetchedTopic,
};
use levada_wire::messages::{AlterPartitionRequest, AlterPartitionResponse};
use rand::RngExt;

use super::controller::{Image, LOST};
use super::mutation::Mutation;
use super::node::{Follows, Here, Leads, Opening, Process, Role, Waiter, fetcher};
use super::truth::{merged, replaced};
use super::world::{CONTROLLER, Checked, Event, Message, Refused, Sim};
use crate::directories::ReplicaKey;
use crate::replication::apply::is_unconfirmed;
use crate::replication::commits::Commits;
use crate::replication::fetcher::{FetcherTask, PartitionKey};
use crate::replication::follower::{
    Bound, FollowedLog, LeaderMarks, LogEnd, Outcome, Task, truncation_offset,
};
use crate::replication::leader::{
    BrokerStanding, ChangeOutcome, Effects, FollowerFetch, Leader, LeaderLimits, LedLog, LedRegistration,
    NO_BROKER_EPOCH,
};

const TOPIC: Uuid = Uuid::from_bytes([7; 16]);
const KEY: PartitionKey = (TOPIC, 0);
const LAG_MS: i64 = 600;
const TIMEOUT_MS: i64 = 350;
/// The first byte of a batch in which damage is found: of the checksum itself.
const CHECKED_FROM: usize = 17;
const FIRST_CLIENT: i32 = 100;

pub(super) fn standings(image: &Image) -> impl Fn(i32) -> Option<BrokerStanding> + use<> {
    let brokers = image.brokers.clone();
    move |id| brokers.get(&id).copied()
}

pub(super) fn log_end(partition: &Partition) -> LogEnd {
    LogEnd { offset: partition.log_end(), epoch: partition.latest_epoch() }
}

impl Role {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Idle => "idle".to_owned(),
            Self::Leads(leads) => {
                let pending = leads.machine.is_change_pending();
                format!(
                    "leads {} isr {:?} pending {pending}",
                    leads.machine.leader_epoch(),
                    leads.machine.isr()
                )
            }
            Self::Follows(follows) => format!("follows {} in {}", follows.leader, follows.leader_epoch),
        }
    }
}

impl Process {
    fn leads(&mut self) -> Option<&mut Leads> {
        match &mut self.role {
            Role::Leads(leads) => Some(leads),
            _ => None,
        }
    }

    fn follows(&mut self) -> Option<&mut Follows> {
        match &mut self.role {
            Role::Follows(follows) => Some(follows),
            _ => None,
        }
    }
}

impl Sim {
    fn process(&mut self, id: i32, incarnation: u64) -> Option<&mut Process> {
        self.node(id).process.as_mut().filter(|process| process.incarnation == incarnation)
    }

    pub(super) fn deliver(&mut self, from: i32, id: i32, message: Message) -> Result<(), String> {
        match message {
            Message::Registered { incarnation, epoch, image } => {
                let Some(process) = self.process(id, incarnation) else { return Ok(()) };
                process.epoch = epoch;
                self.node(id).is_clean = false;
                self.apply(id, image)
            }
            Message::Metadata(image) => {
                let knows = self.node(id).process.as_ref().is_some_and(|process| process.epoch >= 0);
                if knows { self.apply(id, image) } else { Ok(()) }
            }
            Message::Unregistered { epoch } => {
                if let Some(process) = self.node(id).process.as_mut().filter(|process| process.epoch == epoch)
                {
                    process.epoch = -1;
                }
                Ok(())
            }
            Message::Altered { incarnation, number, response } => {
                self.alter_answered(id, incarnation, number, Some(&response))
            }
            Message::Assigned { incarnation, number, response } => {
                let now_ms = self.now_ms;
                let Some(process) = self.process(id, incarnation) else { return Ok(()) };
                process.report.take_if(|(report, _)| *report == number);
                process.directories.answered(number, Some(&response), now_ms);
                Ok(())
            }
            Message::Fetch { incarnation, number, request } => {
                self.serve_fetch(id, (from, incarnation, number), &request)
            }
            Message::Fetched { incarnation, number, response } => {
                self.fetched(id, incarnation, number, response);
                Ok(())
            }
            Message::Produce { attempt, number, records, all } => {
                self.produce(id, from, (attempt, number, all), records)
            }
            _ => unreachable!("nobody sends this to a node"),
        }
    }

    pub(super) fn tick(&mut self, id: i32) -> Result<(), String> {
        let now_ms = self.now_ms;
        let claims_clean = self.is_mutated(Mutation::ClaimsCleanStop);
        let node = self.node(id);
        let is_clean = node.is_clean || claims_clean;
        let Some(process) = &mut node.process else { return Ok(()) };
        if process.epoch < 0 {
            let incarnation = process.incarnation;
            self.send(id, CONTROLLER, Message::Register { incarnation, is_clean });
            return Ok(());
        }
        // A broker whose directories the controller does not have yet stays fenced.
        let image = process.image.as_ref().filter(|_| process.directories.is_settled());
        let version = image.map_or(0, |image| image.version);
        let heartbeat = Message::Heartbeat { epoch: process.epoch, version };
        let is_due = now_ms - process.lag_checked_ms >= LAG_MS / 2 && !process.is_broken;
        let mut effects = None;
        if is_due {
            process.lag_checked_ms = now_ms;
            let end = process.log.as_ref().map_or(0, |log| log.partition().log_end());
            effects = process.leads().map(|leads| leads.machine.check_lag(end, now_ms));
        }
        self.send(id, CONTROLLER, heartbeat);
        if let Some(effects) = effects {
            self.take(id, effects)?;
        }
        self.settle_doubt(id, TOPIC)?;
        self.poll_fetch(id);
        self.poll_alter(id);
        self.poll_report(id);
        Ok(())
    }

    /// Takes the log of a running process offline.
    pub(super) fn break_log(&mut self, id: i32, ms: i64) {
        let Some(process) = self.node(id).process.as_mut() else { return };
        if process.log.is_none() || process.is_broken {
            return;
        }
        (process.is_broken, process.repair_ms) = (true, Some(ms));
    }

    fn poll_report(&mut self, id: i32) {
        let (now_ms, hides) = (self.now_ms, self.is_mutated(Mutation::HidesLostLogs));
        let Some(process) = self.node(id).process.as_mut() else { return };
        let is_recorded = process.image.as_ref().is_some_and(|image| image.lost.contains(&id));
        // The operator waits for the report.
        if process.is_broken && !hides && (!is_recorded || process.repair_ms.is_some()) {
            process.directories.assign(ReplicaKey::new(TOPIC, 0), LOST);
        }
        if let Some((number, _)) = process.report.take_if(|(_, sent_ms)| now_ms - *sent_ms > TIMEOUT_MS) {
            process.directories.answered(number, None, now_ms);
        }
        let (incarnation, epoch) = (process.incarnation, process.epoch);
        let Some((number, request)) = process.directories.poll(id, epoch, now_ms) else { return };
        process.report = Some((number, now_ms));
        self.send(id, CONTROLLER, Message::Assign { incarnation, number, request });
    }

    /// Applies new metadata.
    fn apply(&mut self, id: i32, image: Image) -> Result<(), String> {
        let is_mutated = self.is_mutated(Mutation::NeverResigns);
        let node = self.node(id);
        let process = node.process.as_mut().expect("the caller has looked");
        if process.image.as_ref().is_some_and(|held| held.version >= image.version) {
            return Ok(());
        }
        let partition = image.partition.clone();
        let is_broken = process.is_broken;
        let was_lost = process.image.as_ref().is_some_and(|held| held.lost.contains(&id));
        process.image = Some(image);
        if !partition.replicas.contains(&id) {
            self.lose_leadership(id);
            let process = self.node(id).process.as_mut().expect("the caller has looked");
            (process.log, process.role) = (None, Role::Idle);
            (process.is_broken, process.repair_ms) = (false, None);
            (process.doubt, process.keeps_claims) = (None, false);
            process.directories.forget(ReplicaKey::new(TOPIC, 0));
            self.node(id).delete();
            return Ok(());
        }
        if is_broken {
            self.lose_leadership(id);
            let process = self.node(id).process.as_mut().expect("the caller has looked");
            process.role = Role::Idle;
            return Ok(());
        }
        if self.node(id).process.as_ref().is_some_and(|process| process.log.is_none()) {
            self.open(id);
        }
        self.review_doubt(id, ReplicaKey::new(TOPIC, 0), was_lost);
        let is_in_doubt = self.node(id).process.as_ref().is_some_and(|process| process.doubt.is_some());
        if partition.leader == id && !is_in_doubt {
            return self.lead(id);
        }
        let leads = self.node(id).process.as_mut().is_some_and(|process| process.leads().is_some());
        if leads && is_mutated {
            return Ok(());
        }
        self.lose_leadership(id);
        let process = self.node(id).process.as_mut().expect("the caller has looked");
        process.log.as_mut().expect("it was opened").resign();
        if partition.leader == -1 || partition.leader == id {
            process.role = Role::Idle;
            return Ok(());
        }
        self.follow(id, partition.leader, partition.leader_epoch)
    }

    fn open(&mut self, id: i32) {
        let (now_ms, keeps_holes) = (self.now_ms, self.is_mutated(Mutation::KeepsHoles));
        let trusts_its_end = self.is_mutated(Mutation::OpensCommitted);
        let node = self.node(id);
        let image = node.process.as_ref().and_then(|process| process.image.as_ref());
        let leads = image.is_some_and(|image| image.partition.leader == id);
        let opening = Opening { trusts_its_end, ends_at_holes: !leads && !keeps_holes };
        let (log, report) = node.open(opening, now_ms);
        node.checkpoint.is_clean = false;
        let (end, high) = (log.partition().log_end(), log.partition().high_watermark());
        let verified = if node.is_harmed { end } else { log.partition().log_start() };
        let process = node.process.as_mut().expect("a process opens it");
        process.verified = verified;
        process.log = Some(log);
        self.note_losses(id, &report);
        self.node(id).store_fallen(high);
        self.note(|| format!("node {id} opens its log: high watermark {high}, end {end}"));
    }

    fn lose_leadership(&mut self, id: i32) {
        let keeps = self.is_mutated(Mutation::KeepsWaiters);
        let process = self.node(id).process.as_mut().expect("the caller has looked");
        let Some(leads) = process.leads() else { return };
        let lost: Vec<Waiter> = leads.commits.lost().collect();
        process.role = Role::Idle;
        if keeps {
            return process.kept.extend(lost);
        }
        lost.into_iter().for_each(|waiter| self.refuse(id, waiter.client, waiter.attempt));
    }

    fn refuse(&mut self, id: i32, client: usize, attempt: u64) {
        let told = Message::Produced { attempt, outcome: Err(Refused::Again) };
        self.send(id, FIRST_CLIENT + client as i32, told);
    }

    pub(super) fn lead(&mut self, id: i32) -> Result<(), String> {
        let now_ms = self.now_ms;
        let joins_below = self.is_mutated(Mutation::JoinsBelowEpochStart);
        let keeps_positions = self.is_mutated(Mutation::KeepsPositionsOfFormerTerms);
        let min_isr = self.controller.min_isr() as u32;
        let (floor, rewrites) = (self.floor, self.needs_rewrite);
        let node = self.node(id);
        let process = node.process.as_mut().expect("the caller has looked");
        let image = process.image.clone().expect("it was set");
        let registered = image.partition.led();
        let partition = process.log.as_ref().expect("it was opened").partition().clone();
        let held = process.leads().map(|leads| leads.machine.leader_epoch());
        if held != Some(registered.leader_epoch) {
            let log = process.log.as_mut().expect("it was opened");
            let start = log.lead(registered.leader_epoch).map_err(|error| error.to_string())?;
            let high_watermark = partition.high_watermark();
            // As the broker: the machine of a leader that is elected again continues.
            if held.is_none() {
                let led =
                    LedLog { log_end: if joins_below { high_watermark } else { start }, high_watermark };
                let limits = LeaderLimits { min_insync_replicas: min_isr, lag_ms_max: LAG_MS };
                let machine = Leader::new(id, limits, &registered, led, now_ms);
                let mut commits = Commits::default();
                for waiter in std::mem::take(&mut process.kept) {
                    commits.wait(waiter.end, waiter);
                }
                process.role = Role::Leads(Box::new(Leads { machine, commits }));
            }
            process.lag_checked_ms = now_ms;
            if registered.leader_epoch >= floor && node.is_stale {
                node.is_stale = false;
                process.verified = partition.log_start();
                if rewrites {
                    self.needs_rewrite = false;
                    self.truth.rewrite(&partition)?;
                }
            }
            self.strike(id);
            self.note(|| {
                format!(
                    "node {id} leads in epoch {} from {start}, high watermark {high_watermark}",
                    registered.leader_epoch
                )
            });
        }
        let held = held.unwrap_or(registered.leader_epoch);
        let between = if keeps_positions { held + 1..registered.leader_epoch } else { 0..0 };
        for leader_epoch in between {
            self.step_leader(id, &LedRegistration { leader_epoch, ..registered.clone() }, &image)?;
        }
        self.step_leader(id, &registered, &image)?;
        self.verify(id)
    }

    fn step_leader(&mut self, id: i32, registered: &LedRegistration, image: &Image) -> Result<(), String> {
        let now_ms = self.now_ms;
        let process = self.node(id).process.as_mut().expect("the caller has looked");
        let log_end = process.log.as_ref().map_or(0, |log| log.partition().log_end());
        let leads = process.leads().expect("it leads");
        let effects = leads.machine.lead(registered, log_end, &standings(image), now_ms);
        self.take(id, effects)
    }

    fn follow(&mut self, id: i32, leader: i32, leader_epoch: i32) -> Result<(), String> {
        let truncates = self.is_mutated(Mutation::TruncatesToHighWatermark);
        let begins_epoch = self.is_mutated(Mutation::FollowerBeginsEpoch);
        let (now_ms, thread) = (self.now_ms, self.next_number());
        let process = self.node(id).process.as_mut().expect("the caller has looked");
        let image = process.image.as_ref().expect("it follows by it");
        let is_in_sync = image.partition.isr.contains(&id);
        let is_complete = image.is_complete(id) && process.doubt.is_none();
        let is_same = |follows: &Follows| follows.leader == leader && follows.is_in_sync == is_in_sync;
        if process.follows().is_some_and(|follows| follows.leader_epoch == leader_epoch && is_same(follows)) {
            return Ok(());
        }
        if process.follows().is_none_or(|follows| !is_same(follows)) {
            let follows = Follows {
                leader,
                leader_epoch,
                is_in_sync,
                fetcher: fetcher(id),
                thread,
                request: None,
                is_busy: false,
                poll_ms: 0,
            };
            process.role = Role::Follows(Box::new(follows));
        }
        let log = process.log.as_mut().expect("it was opened");
        let partition = log.partition().clone();
        if truncates {
            log.truncate(partition.high_watermark(), now_ms).map_err(|error| error.to_string())?;
        }
        if begins_epoch && partition.latest_epoch() < leader_epoch {
            log.lead(leader_epoch).map_err(|error| error.to_string())?;
            log.resign();
        }
        process.verified = process.verified.min(partition.log_end());
        let incarnation = process.incarnation;
        let follows = process.follows().expect("it follows");
        follows.leader_epoch = leader_epoch;
        follows.is_busy = false;
        let (end, high_watermark) = (log_end(&partition), partition.high_watermark());
        let own = FollowedLog { end, high_watermark, is_complete };
        let task = follows.fetcher.follow(KEY, leader_epoch, own);
        if let Some(task) = task {
            follows.is_busy = true;
            let thread = follows.thread;
            self.push(now_ms, Event::Task { node: id, incarnation, thread, task });
        }
        self.poll_fetch(id);
        Ok(())
    }

    fn poll_fetch(&mut self, id: i32) {
        let (now_ms, number) = (self.now_ms, self.next_number());
        let Some(process) = self.node(id).process.as_mut() else { return };
        let (epoch, incarnation) = (process.epoch, process.incarnation);
        let Some(log_start) = process.log.as_ref().map(|log| log.partition().log_start()) else { return };
        let Some(follows) = process.follows() else { return };
        if follows.request.is_some() || follows.is_busy || follows.poll_ms > now_ms {
            return;
        }
        let Some(request) = follows.fetcher.poll(&Here { epoch, log_start }, now_ms) else { return };
        follows.request = Some(number);
        let leader = follows.leader;
        let fetch = Message::Fetch { incarnation, number, request };
        self.send_fetch(id, leader, fetch);
        self.push(now_ms + TIMEOUT_MS, Event::FetchTimeout { node: id, incarnation, number });
    }

    pub(super) fn fetch_timed_out(&mut self, id: i32, incarnation: u64, number: u64) {
        let now_ms = self.now_ms;
        let Some(follows) = self.process(id, incarnation).and_then(Process::follows) else { return };
        if follows.request.take_if(|request| *request == number).is_some() {
            follows.fetcher.failed(now_ms);
        }
    }

    fn fetched(&mut self, id: i32, incarnation: u64, number: u64, response: FetchResponse<Bytes>) {
        let (now_ms, takes_late) = (self.now_ms, self.is_mutated(Mutation::TakesLateAnswers));
        let Some(follows) = self.process(id, incarnation).and_then(Process::follows) else { return };
        if follows.request.take_if(|request| *request == number || takes_late).is_none() {
            return;
        }
        let mut answers = response.topics.iter().flat_map(|topic| &topic.partitions);
        let has_news =
            answers.any(|one| one.records.is_some() || one.error_code != 0 || one.diverging_epoch.is_some());
        follows.poll_ms = if has_news { 0 } else { now_ms + 30 };
        let tasks = follows.fetcher.answered(response, now_ms).unwrap_or_default();
        follows.is_busy = !tasks.is_empty();
        let thread = follows.thread;
        for task in tasks {
            // The thread of the fetcher may be slow.
            let slow_ms = if self.random.random_bool(0.08) { self.random.random_range(0..250) } else { 0 };
            let at = now_ms + self.delay_ms() / 2 + slow_ms;
            self.push(at, Event::Task { node: id, incarnation, thread, task });
        }
        self.poll_fetch(id);
    }

    /// The response to a fetch, but for the records; and their number of bytes.
    fn serve_fetch(
        &mut self,
        id: i32,
        (from, incarnation, number): (i32, u64, u64),
        request: &FetchRequest,
    ) -> Result<(), String> {
        let Some(asked) = request.topics.first().and_then(|topic| topic.partitions.first()).cloned() else {
            return Ok(());
        };
        let (mut answer, mut bytes) = (FetchedPartition::new(0), 0);
        let (now_ms, mutation) = (self.now_ms, self.mutation);
        let Some(process) = self.node(id).process.as_mut().filter(|process| process.image.is_some()) else {
            return Ok(());
        };
        let own = process.incarnation;
        let led = if process.is_broken {
            Err(ErrorCode::KafkaStorageError.code())
        } else {
            lead_fetch(process, (from, request.replica_epoch), &asked, mutation)
        };
        let fetch = match led {
            Ok((found, len, fetch)) => {
                (answer, bytes) = (found, len);
                fetch
            }
            Err(code) => {
                answer.error_code = code;
                self.hear(id, (from, request.replica_epoch), &asked);
                None
            }
        };
        if let Some(fetch) = fetch {
            // Between the look at the log and the count the thread may stand still.
            if self.random.random_bool(0.02) {
                let at = now_ms + self.random.random_range(0..2_000);
                self.push(at, Event::Count { node: id, incarnation: own, fetch });
            } else if !self.count(id, own, fetch)? {
                answer = FetchedPartition {
                    error_code: ErrorCode::NotLeaderOrFollower.code(),
                    ..FetchedPartition::new(0)
                };
                bytes = 0;
            }
        }
        if answer.error_code == 0 && answer.diverging_epoch.is_none() {
            let process = self.node(id).process.as_ref().expect("it serves");
            answer.high_watermark = process.log.as_ref().map_or(-1, |log| log.partition().high_watermark());
        }
        let topic = FetchedTopic { topic_id: TOPIC, partitions: vec![answer], name: Default::default() };
        let response = FetchResponse {
            throttle_time_ms: 0,
            error_code: 0,
            session_id: 0,
            topics: vec![topic],
            node_endpoints: Vec::new(),
        };
        let message = Message::Fetched { incarnation, number, response };
        // The bytes of the range are read when the response is sent.
        let at = now_ms + if self.random.random_bool(0.04) { self.random.random_range(0..300) } else { 0 };
        self.push(at, Event::Answer { node: id, to: from, offset: asked.fetch_offset, bytes, message });
        Ok(())
    }

    /// The position of a follower counts; false if it does not.
    pub(super) fn count(&mut self, id: i32, incarnation: u64, fetch: FollowerFetch) -> Result<bool, String> {
        let now_ms = self.now_ms;
        let Some(process) = self.process(id, incarnation).filter(|process| !process.is_broken) else {
            return Ok(false);
        };
        let Some(image) = process.image.clone() else { return Ok(false) };
        let (Role::Leads(leads), Some(log)) = (&mut process.role, &process.log) else { return Ok(false) };
        let end = log.partition().log_end();
        match leads.machine.fetched(fetch, end, &standings(&image), now_ms) {
            Ok(effects) => self.take(id, effects).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    pub(super) fn answer_fetch(
        &mut self,
        id: i32,
        to: i32,
        (offset, len): (i64, usize),
        mut message: Message,
    ) {
        let Message::Fetched { response, .. } = &mut message else { unreachable!("it answers a fetch") };
        if self.spoils().1 && self.random.random_bool(0.05) {
            let partition = &mut response.topics[0].partitions[0];
            *partition = FetchedPartition {
                error_code: ErrorCode::OffsetOutOfRange.code(),
                ..FetchedPartition::new(0)
            };
            return self.send(id, to, message);
        }
        let process = self.node(id).process.as_ref();
        let leads = process.is_some_and(|process| matches!(process.role, Role::Leads(_)));
        let is_read = response.topics[0].partitions[0].high_watermark >= 0;
        let len = if leads || !is_read { len } else { 900 };
        if len > 0 {
            let log = process.and_then(|process| process.log.as_ref());
            let Some(read) = log.and_then(|log| log.partition().read_batches(offset, len as u32).ok()) else {
                return;
            };
            let records = read.slice(..len.min(read.len()));
            response.topics[0].partitions[0].records = Some(records).filter(|records| !records.is_empty());
        }
        self.send(id, to, message);
    }

    /// The records of a response as they arrive.
    fn spoiled(&mut self, id: i32, leader_start: i64, records: Bytes) -> Bytes {
        let (merges, corrupts) = self.spoils();
        let process = self.node(id).process.as_ref();
        let log = process.and_then(|process| process.log.as_ref()).map(|log| log.partition().clone());
        if let Some(merged) = log.filter(|_| merges).and_then(|log| merged(&log, leader_start, &records)) {
            return merged.freeze();
        }
        if corrupts && !records.is_empty() && self.random.random_bool(0.2) {
            if self.is_mutated(Mutation::SkipsChecksum) {
                return replaced(&records).map_or(records, BytesMut::freeze);
            }
            // Kafka's format has no checksum of the base offset and of the leader epoch.
            let first = BatchView::parse(&records).map_or(records.len(), |first| first.size_bytes());
            let at = self.random.random_range(CHECKED_FROM..first);
            let mut damaged = BytesMut::from(&records[..]);
            damaged[at] ^= 1 << self.random.random_range(0..8);
            return damaged.freeze();
        }
        records
    }

    pub(super) fn run_task(
        &mut self,
        id: i32,
        (incarnation, thread): (u64, u64),
        task: FetcherTask,
    ) -> Result<(), String> {
        let now_ms = self.now_ms;
        let in_any = self.is_mutated(Mutation::AppendsInAnyEpoch);
        let restarts = self.is_mutated(Mutation::RestartsWhenOutOfRange);
        // Faults that are made on purpose leave the machine with another end than the log's.
        let is_sound = self.mutation.is_none();
        let Some(process) = self.process(id, incarnation) else { return Ok(()) };
        let is_current = process.follows().is_some_and(|follows| follows.leader_epoch == task.leader_epoch);
        let leads = process.leads().is_some();
        let is_complete = process.image.as_ref().is_some_and(|image| image.is_complete(id));
        let is_complete = is_complete && process.doubt.is_none();
        let end = process.log.as_ref().map(|log| log_end(log.partition()));
        let outcome = if process.log.is_none() || !is_current && (leads || !in_any) {
            Outcome::Superseded
        } else if process.is_broken {
            Outcome::Offline
        } else if let Task::Locate(bound) = task.task {
            self.locate(id, task.leader_epoch, bound)
        } else if is_sound && matches!(task.task, Task::Lower(_)) && is_complete {
            Outcome::Superseded
        } else if let Some(end) = end.filter(|end| is_sound && *end != task.end) {
            Outcome::Moved(end)
        } else {
            self.node(id).drop_claims();
            self.change_log(id, &task)?
        };
        let follows = self.process(id, incarnation).and_then(Process::follows);
        let Some(follows) = follows.filter(|follows| follows.thread == thread) else { return Ok(()) };
        let mut next = follows.fetcher.done(&task, outcome, now_ms);
        if let (true, Task::Locate(Bound::Earliest), Outcome::Located(start)) =
            (restarts, &task.task, outcome)
        {
            let mut restart = task.clone();
            restart.task = Task::Restart(start);
            next = Some(restart);
        }
        // The thread does one task after the other: one from before is not that which it waits for.
        if is_current {
            follows.is_busy = next.is_some();
        }
        if let Some(task) = next {
            let at = now_ms + self.delay_ms();
            self.push(at, Event::Task { node: id, incarnation, thread, task });
        }
        self.poll_fetch(id);
        Ok(())
    }

    /// ListOffsets, there and back immediately.
    fn locate(&mut self, id: i32, leader_epoch: i32, bound: Bound) -> Outcome {
        let leader = self
            .node(id)
            .process
            .as_mut()
            .and_then(|process| process.follows().map(|follows| follows.leader));
        let Some(leader) = leader.filter(|leader| !self.is_cut(id, *leader)) else {
            return Outcome::Refused(ErrorCode::RequestTimedOut.code());
        };
        let Some(process) = self.node(leader).process.as_mut() else {
            return Outcome::Refused(ErrorCode::RequestTimedOut.code());
        };
        let led = process.leads().map(|leads| leads.machine.leader_epoch());
        let is_serving = led == Some(leader_epoch) && !process.is_broken;
        let Some(log) = process.log.as_ref().filter(|_| is_serving) else {
            return Outcome::Refused(ErrorCode::NotLeaderOrFollower.code());
        };
        Outcome::Located(match bound {
            Bound::Latest => log.partition().log_end(),
            Bound::Earliest => log.partition().log_start(),
            Bound::EarliestLocal { .. } => unreachable!("no log has a remote part"),
        })
    }

    fn append_batches(
        &mut self,
        id: i32,
        leader_epoch: i32,
        (records, marks): (&Bytes, LeaderMarks),
    ) -> Result<Outcome, String> {
        let (now_ms, floor, mutation) = (self.now_ms, self.floor, self.mutation);
        let records = self.spoiled(id, marks.log_start, records.clone());
        let node = self.node(id);
        let process = node.process.as_mut().expect("the caller has looked");
        let log = process.log.as_mut().expect("the caller has looked");
        let partition = log.partition().clone();
        if is_unconfirmed(&partition, marks, leader_epoch) {
            partition.raise_high_watermark(partition.log_end());
            let gone = log.advance_log_start(partition.log_end());
            gone.and_then(|gone| gone.remove()).map_err(|error| error.to_string())?;
            node.store_checkpoint();
        }
        let process = node.process.as_mut().expect("the caller has looked");
        let log = process.log.as_mut().expect("the caller has looked");
        let epoch = if mutation == Some(Mutation::TakesLaterEpochs) { i32::MAX } else { leader_epoch };
        let restarts = mutation == Some(Mutation::RestartsInAnyBatch);
        let log_start = if restarts { i64::MAX } else { marks.log_start };
        let leader = ReplicaSource { leader_epoch: epoch, log_start };
        match log.append_replica(&records, leader, now_ms) {
            Ok(_) => {}
            Err(AppendError::Storage(error)) => return Err(error.to_string()),
            Err(error) => {
                self.figures.refused += 1;
                self.note(|| format!("node {id} does not append: {error}"));
                return Ok(Outcome::Damaged(log_end(&partition)));
            }
        }
        partition.raise_high_watermark(marks.high_watermark.min(partition.log_end()));
        if marks.log_start > partition.log_start() {
            let to = marks.log_start.min(partition.high_watermark());
            let gone = log.advance_log_start(to.max(partition.log_start()));
            gone.and_then(|gone| gone.remove()).map_err(|error| error.to_string())?;
        }
        if partition.latest_epoch() > leader_epoch {
            let (latest, known) = (partition.latest_epoch(), leader_epoch);
            return Err(format!("invariant 5: node {id} has epoch {latest}, and follows in {known}"));
        }
        if node.is_stale && leader_epoch >= floor {
            node.is_stale = false;
            process.verified = partition.log_start();
        }
        self.truth.check_start(id, &partition)?;
        self.verify(id)?;
        Ok(Outcome::Done(log_end(&partition)))
    }

    fn change_log(&mut self, id: i32, task: &FetcherTask) -> Result<Outcome, String> {
        if let Task::Append { records, marks } = &task.task {
            return self.append_batches(id, task.leader_epoch, (records, *marks));
        }
        let (now_ms, mutation) = (self.now_ms, self.mutation);
        let node = self.node(id);
        let process = node.process.as_mut().expect("the caller has looked");
        let log = process.log.as_mut().expect("the caller has looked");
        let partition = log.partition().clone();
        let (before, high) = (log_end(&partition), partition.high_watermark());
        // An empty log has nothing committed to lose.
        let was_empty = partition.log_start() == before.offset;
        let mut truncate = |to: i64| {
            if to >= before.offset && mutation == Some(Mutation::KeepsEpochAtEnd) {
                return Ok(before.offset);
            }
            log.truncate(to, now_ms).map_err(|error| error.to_string())
        };
        match &task.task {
            Task::Append { .. } => unreachable!("it is appended"),
            Task::Diverged(_) if mutation == Some(Mutation::IgnoresDivergence) => {
                // As if the leader had told its end only.
                return Ok(Outcome::Done(LogEnd { epoch: -1, ..before }));
            }
            Task::Diverged(EpochEnd { epoch, end_offset }) => {
                let end = EpochEnd { epoch: *epoch, end_offset: *end_offset };
                truncate(truncation_offset(end, partition.epoch_end_offset(*epoch), before.offset))?;
            }
            Task::Truncate(offset) => {
                truncate(*offset)?;
            }
            Task::Restart(offset) => {
                let files = log.restart_at(*offset, now_ms);
                files.and_then(|files| files.remove()).map_err(|error| error.to_string())?;
            }
            Task::Lower(offset) => {
                if partition.log_start() == before.offset && *offset < before.offset {
                    let files = log.restart_at(*offset, now_ms);
                    files.and_then(|files| files.remove()).map_err(|error| error.to_string())?;
                }
            }
            Task::Locate(_) => unreachable!("it does not change the log"),
            Task::Rebuild(_) => unreachable!("no log has a remote part"),
        }
        if mutation == Some(Mutation::KeepsEpochOfCut) && partition.latest_epoch() < before.epoch {
            log.lead(before.epoch).map_err(|error| error.to_string())?;
            log.resign();
        }
        process.verified = process.verified.min(partition.log_end());
        node.store_fallen(partition.high_watermark());
        let is_stale = node.is_stale;
        let end = log_end(&partition);
        self.figures.truncations += 1;
        self.note(|| format!("node {id}: {:?}: {before:?} -> {end:?}, high watermark {high}", task.task));
        if end.offset < high && !is_stale && !was_empty {
            return Err(format!(
                "invariant 2: node {id} cuts at {} what is committed up to {high}",
                end.offset
            ));
        }
        self.truth.check_start(id, &partition)?;
        Ok(Outcome::Done(end))
    }

    fn produce(
        &mut self,
        id: i32,
        from: i32,
        (attempt, number, all): (u64, u64, bool),
        records: BytesMut,
    ) -> Result<(), String> {
        let Some(process) = self.node(id).process.as_mut() else { return Ok(()) };
        let (incarnation, is_broken) = (process.incarnation, process.is_broken);
        let takes = |leads: &&mut Leads| !is_broken && (!all || !leads.machine.is_under_min_insync());
        let Some(leads) = process.leads().filter(takes) else {
            self.refuse(id, (from - FIRST_CLIENT) as usize, attempt);
            return Ok(());
        };
        let leader_epoch = leads.machine.leader_epoch();
        let batch = Checked { leader_epoch, from, attempt, number, records, all };
        // The lane may have other work before.
        if self.random.random_bool(0.06) {
            let at = self.now_ms + self.random.random_range(0..250);
            self.push(at, Event::Append { node: id, incarnation, batch });
            return Ok(());
        }
        self.append(id, incarnation, batch)
    }

    pub(super) fn append(&mut self, id: i32, incarnation: u64, batch: Checked) -> Result<(), String> {
        let Checked { leader_epoch, from, attempt, number, records, all } = batch;
        let (now_ms, client) = (self.now_ms, (from - FIRST_CLIENT) as usize);
        let at_once = self.is_mutated(Mutation::AcknowledgesAtAppend);
        let in_any_role = self.is_mutated(Mutation::AppendsAfterRoleChange);
        let Some(process) = self.process(id, incarnation) else { return Ok(()) };
        if process.is_broken {
            self.refuse(id, client, attempt);
            return Ok(());
        }
        let image = process.image.clone().expect("a batch was checked by it");
        let (role, Some(log)) = (&mut process.role, &mut process.log) else { return Ok(()) };
        let partition = log.partition().clone();
        let is_wrong = in_any_role && !matches!(role, Role::Leads(_));
        if is_wrong {
            log.lead(partition.latest_epoch().max(0)).map_err(|error| error.to_string())?;
        }
        let checked = if in_any_role { ANY_LEADER_EPOCH } else { leader_epoch };
        let mut group = [Append { leader_epoch: checked, ..Append::client(records) }];
        let outcome = log.append(&mut group, now_ms).pop().expect("one batch has one outcome");
        if is_wrong {
            log.resign();
        }
        let appended = match outcome {
            Ok(appended) => appended,
            Err(AppendError::LeaderEpoch { .. }) => {
                self.refuse(id, client, attempt);
                return Ok(());
            }
            Err(AppendError::OutOfOrderSequence { .. } | AppendError::ProducerEpoch { .. }) => {
                let told = Message::Produced { attempt, outcome: Err(Refused::Lost) };
                self.send(id, from, told);
                return Ok(());
            }
            Err(error) => return Err(format!("node {id} cannot append: {error}")),
        };
        let Role::Leads(leads) = role else { return Ok(()) };
        let end = appended.last_offset + 1;
        let waiter = Waiter { client, attempt, number, offset: appended.base_offset, end };
        let waits = all && !at_once;
        if waits {
            leads.commits.wait(end, waiter);
        }
        let effects = leads.machine.appended(partition.log_end(), &standings(&image), now_ms);
        if !waits {
            self.acknowledge(id, waiter, all)?;
        }
        self.take(id, effects)?;
        self.release(id)
    }

    fn acknowledge(&mut self, id: i32, waiter: Waiter, all: bool) -> Result<(), String> {
        let process = self.node(id).process.as_mut().expect("it acknowledges");
        let epoch = process.leads().expect("it leads").machine.leader_epoch();
        self.truth.acknowledge((id, epoch), (waiter.number, waiter.offset), all)?;
        let told = Message::Produced { attempt: waiter.attempt, outcome: Ok(()) };
        self.send(id, FIRST_CLIENT + waiter.client as i32, told);
        Ok(())
    }

    /// Acknowledges what the high watermark covers.
    fn release(&mut self, id: i32) -> Result<(), String> {
        let process = self.node(id).process.as_mut().expect("the caller has looked");
        let Some(high) = process.log.as_ref().map(|log| log.partition().high_watermark()) else {
            return Ok(());
        };
        let Some(leads) = process.leads() else { return Ok(()) };
        let reached: Vec<Waiter> = leads.commits.reached(high).collect();
        let has_fallen_short = leads.machine.has_fallen_short();
        for waiter in reached {
            if has_fallen_short {
                self.refuse(id, waiter.client, waiter.attempt);
            } else {
                self.acknowledge(id, waiter, true)?;
            }
        }
        Ok(())
    }

    /// Does what a leader's machine wants.
    fn take(&mut self, id: i32, effects: Effects) -> Result<(), String> {
        let mutation = self.mutation;
        let process = self.node(id).process.as_mut().expect("the caller has looked");
        let Some(partition) = process.log.as_ref().map(|log| log.partition().clone()) else { return Ok(()) };
        let mut high = effects.high_watermark.unwrap_or(0);
        if let Some(leads) = process.leads() {
            let proposed =
                effects.change.as_ref().map(|change| change.isr.iter().map(|(id, _)| *id).collect());
            high =
                high.max(wrong_high_watermark(mutation, (id, &leads.machine), proposed, partition.log_end()));
        }
        if let Some(mut change) = effects.change {
            if mutation == Some(Mutation::JoinsWithoutBrokerEpoch) {
                change.isr.iter_mut().for_each(|(_, epoch)| *epoch = NO_BROKER_EPOCH);
            }
            process.isr.submit(ReplicaKey::new(TOPIC, 0), change);
        }
        if high > partition.high_watermark() {
            partition.raise_high_watermark(high);
            self.verify(id)?;
            self.check_in_sync()?;
            self.release(id)?;
        }
        self.poll_alter(id);
        Ok(())
    }

    /// Members of the controller's ISR have everything that was shown as committed.
    pub(super) fn check_in_sync(&mut self) -> Result<(), String> {
        let committed = self.truth.committed_end();
        if self.needs_rewrite {
            return Ok(());
        }
        for id in self.controller.partition().isr.clone() {
            let node = self.node(id);
            let Some(process) = node.process.as_ref().filter(|process| process.epoch >= 0 && !node.is_stale)
            else {
                continue;
            };
            // A replica in doubt does not lead.
            let Some(log) = process.log.as_ref().filter(|_| process.doubt.is_none()) else { continue };
            let end = log.partition().log_end();
            if end < committed {
                return Err(format!(
                    "invariant 3: offsets up to {committed} are committed, replica {id} in the ISR ends at {end}"
                ));
            }
        }
        Ok(())
    }

    /// Compares what a node shows as committed.
    fn verify(&mut self, id: i32) -> Result<(), String> {
        let floor = self.floor;
        let node = self.node(id);
        if node.is_stale {
            return Ok(());
        }
        let Some(process) = node.process.as_mut() else { return Ok(()) };
        let Some(partition) = process.log.as_ref().map(|log| log.partition().clone()) else { return Ok(()) };
        let (epoch, leads) = match &process.role {
            Role::Idle => return Ok(()),
            Role::Leads(leads) => (leads.machine.leader_epoch(), true),
            Role::Follows(follows) => (follows.leader_epoch, false),
        };
        let from = process.verified;
        if epoch < floor || from >= partition.high_watermark() {
            return Ok(());
        }
        let verified = self.truth.shown((id, leads), &partition, from)?;
        self.node(id).process.as_mut().expect("it is there").verified = verified;
        Ok(())
    }

    fn poll_alter(&mut self, id: i32) {
        let now_ms = self.now_ms;
        let Some(process) = self.node(id).process.as_mut() else { return };
        let (incarnation, epoch) = (process.incarnation, process.epoch);
        let Some((number, request)) = process.isr.poll(id, epoch, now_ms) else { return };
        process.asked = request.clone();
        let isr = members(&request);
        let late_ms = self.send_change(id, &isr, Message::Alter { incarnation, number, request });
        self.push(now_ms + late_ms + TIMEOUT_MS, Event::AlterTimeout { node: id, incarnation, number });
    }

    pub(super) fn alter_answered(
        &mut self,
        id: i32,
        incarnation: u64,
        number: u64,
        response: Option<&AlterPartitionResponse>,
    ) -> Result<(), String> {
        let (now_ms, mutation) = (self.now_ms, self.mutation);
        let Some(process) = self.process(id, incarnation) else { return Ok(()) };
        let Some(image) = process.image.clone() else { return Ok(()) };
        let response = response.map(|response| misread(mutation, response, &process.asked));
        for result in process.isr.answered(number, response.as_ref(), now_ms) {
            let Some(process) = self.process(id, incarnation) else { return Ok(()) };
            let Role::Leads(leads) = &mut process.role else { continue };
            let answer = result.answer.as_ref().map_err(|code| *code);
            let (outcome, effects) =
                leads.machine.answered(result.number, answer, &standings(&image), now_ms);
            if let ChangeOutcome::Retry(change) = outcome {
                process.isr.retry(result.partition, change, now_ms);
            }
            self.take(id, effects)?;
        }
        self.poll_alter(id);
        Ok(())
    }

    pub(super) fn delete_records(&mut self) -> Result<(), String> {
        let share = self.random.random_range(0.0..1.0);
        let beyond = self.is_mutated(Mutation::DeletesUncommitted);
        let mut leading = Vec::new();
        for node in &mut self.nodes {
            let Some(process) = &mut node.process else { continue };
            let (Role::Leads(_), Some(log), false) = (&process.role, &mut process.log, process.is_broken)
            else {
                continue;
            };
            if beyond {
                log.partition().raise_high_watermark(log.partition().log_end());
            }
            let (start, high) = (log.partition().log_start(), log.partition().high_watermark());
            leading.push(node.id);
            let to = start + ((high - start) as f64 * share) as i64;
            let gone = log.advance_log_start(to);
            gone.and_then(|gone| gone.remove()).map_err(|error| error.to_string())?;
            self.truth.delete(to);
        }
        leading.into_iter().try_for_each(|id| self.verify(id))?;
        self.check_in_sync()
    }
}

/// The replicas that a change puts into the ISR.
fn members(request: &AlterPartitionRequest) -> Vec<i32> {
    let partition = request.topics.first().and_then(|topic| topic.partitions.first());
    partition
        .map_or_else(Vec::new, |one| one.new_isr_with_epochs.iter().map(|member| member.broker_id).collect())
}

/// The controller's response as a mutation misreads it.
fn misread(
    mutation: Option<Mutation>,
    response: &AlterPartitionResponse,
    asked: &AlterPartitionRequest,
) -> AlterPartitionResponse {
    let mut response = response.clone();
    let change = asked.topics.first().and_then(|topic| topic.partitions.first());
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if partition.error_code != ErrorCode::InvalidUpdateVersion.code() {
            continue;
        }
        match (mutation, change) {
            (Some(Mutation::ForgetsRefusedChange), _) => {
                partition.error_code = ErrorCode::OperationNotAttempted.code();
            }
            (Some(Mutation::TakesRefusalForSuccess), Some(change)) => {
                partition.error_code = ErrorCode::None.code();
                partition.leader_epoch = change.leader_epoch;
                partition.partition_epoch = change.partition_epoch + 1;
                partition.isr = members(asked);
            }
            _ => {}
        }
    }
    response
}

/// A high watermark that one of the mistakes leads to; 0 without one.
fn wrong_high_watermark(
    mutation: Option<Mutation>,
    (id, machine): (i32, &Leader),
    proposed: Option<Vec<i32>>,
    log_end: i64,
) -> i64 {
    let lowest = |isr: &[i32]| {
        let ends = isr.iter().filter(|one| **one != id).filter_map(|one| machine.follower_end(*one));
        ends.fold(log_end, i64::min)
    };
    let is_short = machine.is_under_min_insync();
    match mutation {
        Some(Mutation::CommitsAtAppend) => log_end,
        Some(Mutation::CommitsUnderMinIsr) => lowest(machine.isr()),
        Some(Mutation::IgnoresJoining) if !is_short => lowest(machine.isr()),
        Some(Mutation::ShrinksAtOnce) if !is_short => {
            proposed.filter(|isr| isr.len() < machine.isr().len()).map_or(0, |isr| lowest(&isr))
        }
        _ => 0,
    }
}

/// The end of the batches that a response has.
fn end_of(partition: &Partition, offset: i64, len: usize) -> i64 {
    let read = partition.read_batches(offset, len as u32).unwrap_or_default();
    let (mut end, mut rest) = (offset, &read[..len.min(read.len())]);
    while let Ok(batch) = batch::check_stored(rest) {
        end = batch.last_offset() + 1;
        rest = &rest[batch.size_bytes()..];
    }
    end
}

/// The response of a leader to a fetch, without the records; the number of their bytes, and the
/// position of the follower.
fn lead_fetch(
    process: &mut Process,
    (replica, broker_epoch): (i32, i64),
    asked: &FetchPartition,
    mutation: Option<Mutation>,
) -> Result<(FetchedPartition<Bytes>, usize, Option<FollowerFetch>), i16> {
    let image = process.image.clone().expect("the caller has looked");
    let known = image.partition.leader_epoch;
    match asked.current_leader_epoch {
        epoch if epoch < known => return Err(ErrorCode::FencedLeaderEpoch.code()),
        epoch if epoch > known => return Err(ErrorCode::UnknownLeaderEpoch.code()),
        _ => {}
    }
    let (Role::Leads(leads), Some(log)) = (&mut process.role, &process.log) else {
        return Err(ErrorCode::NotLeaderOrFollower.code());
    };
    leads.machine.check_assigned(replica).map_err(|_| ErrorCode::UnknownLeaderEpoch.code())?;
    let partition = log.partition();
    let (offset, last) = (asked.fetch_offset, asked.last_fetched_epoch);
    let (start, end) = (partition.log_start(), partition.log_end());
    let mut answer = FetchedPartition { log_start_offset: start, ..FetchedPartition::new(0) };
    if last >= 0 {
        let (epoch, end_offset) = partition.epoch_end_offset(last);
        if epoch < 0 || offset < start {
            return Err(ErrorCode::OffsetOutOfRange.code());
        }
        if epoch < last || end_offset < offset {
            answer.diverging_epoch = Some(EpochEnd { epoch, end_offset });
            return Ok((answer, 0, None));
        }
    }
    if !(start..=end).contains(&offset) {
        return Err(ErrorCode::OffsetOutOfRange.code());
    }
    let slice = partition
        .read(offset, asked.max_bytes as u32, end, true)
        .map_err(|_| ErrorCode::OffsetOutOfRange.code())?;
    let log_start = asked.log_start_offset;
    let leader_epoch = leads.machine.leader_epoch();
    let broker_epoch = match image.brokers.get(&replica) {
        Some(standing) if mutation == Some(Mutation::CountsFetchesOfFormerProcesses) => standing.epoch,
        _ => broker_epoch,
    };
    let offset = match mutation {
        Some(Mutation::CountsSentAsReceived) => end_of(partition, offset, slice.len() as usize),
        _ => offset,
    };
    let fetch = FollowerFetch { replica, broker_epoch, leader_epoch, offset, log_start, leader_end: end };
    Ok((answer, slice.len() as usize, Some(fetch)))
}
