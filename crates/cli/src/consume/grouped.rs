//! Consuming in a group: commits the offsets of records after they were printed.

use std::collections::{BTreeMap, BTreeSet};

use levada_client::committed::{self, Stable};
use levada_client::fetcher::places_of;
use levada_client::member::{Held, is_healed_by_a_heartbeat};
use levada_client::{
    Cluster, Fetcher, Member, NO_LEADER, Offsets, Outage, Topic, TopicPartition, Topics, Watch as _,
};
use levada_wire::Uuid;

use super::Args;
use super::alone::AWAY_LIMIT;
use super::limit::Limit;
use super::sink::Sink;
use super::topics::Wanted;
use crate::group::state;
use crate::notices::OutputReporter;
use crate::{interrupt, kafka_error, output};
use levada_terminal::failure::Failure;

struct Reading<'a> {
    args: &'a Args,
    group: &'a str,
    limit: &'a Limit,
    cluster: Cluster,
    member: Member,
    fetcher: Fetcher,
    /// The partitions of the last heartbeat response, until the member takes them over.
    assigned: Option<Held>,
    held: Held,
    /// Committed offsets of the partitions that are read, as the group has them.
    committed: Offsets,
    /// Assigned partitions that are not read yet, because an open transaction has an offset of the
    /// group.
    unstable: BTreeSet<TopicPartition>,
    /// Positions after the last printed records that are not committed, with the ids of the topics.
    /// After a lost membership these records are not printed again.
    printed: BTreeMap<TopicPartition, (Uuid, i64)>,
    /// True if `--exit` is set and the coordinator intends no partition for this member.
    has_nothing_to_read: bool,
}

/// The group to read as, the topics, and the end of reading.
pub(super) struct Task<'a> {
    pub(super) group: &'a str,
    pub(super) wanted: &'a Wanted,
    pub(super) limit: &'a Limit,
}

pub(super) fn run(args: &Args, task: Task<'_>, cluster: Cluster, sink: &mut Sink<'_>) -> Result<(), Failure> {
    let resources = resources(&task);
    // Read includes describe, which the search for the coordinator needs.
    kafka_error::needing_all(read(args, task, cluster, sink), "read", &resources)
}

/// Options of `levada acl` for all that a member reads.
fn resources(task: &Task<'_>) -> String {
    let pattern = task.wanted.expression().map(|_| "NAME");
    let topics = task.wanted.names().chain(pattern).map(|name| format!(" --topic {name}"));
    format!("--group {}{}", task.group, topics.collect::<String>())
}

fn read(args: &Args, task: Task<'_>, mut cluster: Cluster, sink: &mut Sink<'_>) -> Result<(), Failure> {
    let Task { group, wanted, limit } = task;
    // A name without a topic is an error here, which the coordinator would wait for in silence.
    wanted.find(&mut cluster, &[])?;
    let mut reading = Reading {
        args,
        group,
        limit,
        cluster,
        member: Member::new(group, wanted.names(), wanted.expression()),
        fetcher: Fetcher::new(args.isolation.isolation()),
        assigned: None,
        held: Held::new(),
        committed: Offsets::new(),
        unstable: BTreeSet::new(),
        printed: BTreeMap::new(),
        has_nothing_to_read: false,
    };
    let ended = reading.run(sink);
    let was_cut = interrupt::is_asked() && args.has_end() && !reading.is_complete(sink);
    reading.end(ended)?;
    if was_cut { Err(Failure::Interrupted) } else { Ok(()) }
}

impl Reading<'_> {
    fn run(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let mut outage = Outage::none(self.args.exit.then_some(AWAY_LIMIT));
        while !self.is_done(sink) {
            let stepped = self.step(sink);
            sink.flush()?;
            self.note_printed();
            // One leader may fail while others have sent records.
            let committed = if self.member.has_joined() { self.commit() } else { Ok(()) };
            match stepped.and(committed) {
                Ok(()) => outage.over::<Failure>(&OutputReporter),
                Err(failure) => self.bear(&mut outage, failure)?,
            }
        }
        Ok(())
    }

    fn is_done(&self, sink: &Sink<'_>) -> bool {
        interrupt::is_asked() || self.is_complete(sink)
    }

    fn is_complete(&self, sink: &Sink<'_>) -> bool {
        let has_all = !self.fetcher.positions().is_empty() && self.unstable.is_empty();
        sink.is_full()
            || output::stdout_is_closed()
            || self.has_nothing_to_read
            || (has_all && self.fetcher.has_reached_ends())
    }

    fn step(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        // A heartbeat would acknowledge the last assignment.
        if self.assigned.is_none() {
            self.assigned = self.member.beat(&mut self.cluster)?;
        }
        if let Some(held) = self.assigned.clone() {
            self.take_over(held)?;
            self.assigned = None;
        }
        if self.args.exit && self.member.is_idle() && self.is_meant_to_idle()? {
            let group = self.group;
            tell!(
                "note: group {group} has no partition for this member; levada group describe {group} shows its members"
            );
            self.has_nothing_to_read = true;
            return Ok(());
        }
        if self.fetcher.is_outdated() {
            let topics = self.topics(&self.held.clone())?;
            let mut positions = self.fetcher.positions().clone();
            positions.retain(|(name, _), _| topics.contains_key(name));
            positions.extend(self.positions(self.unstable.clone(), &topics)?);
            self.assign(topics, positions)?;
        }
        if self.limit.is_due() && !self.fetcher.positions().is_empty() {
            let topics = self.fetcher.without_end();
            if !topics.is_empty() {
                let ends = self.limit.ends(&mut self.cluster, &topics, self.fetcher.isolation())?;
                self.fetcher.end_at(ends, self.limit.is_of_logs());
            }
        }
        self.fetcher.fetch(&mut self.cluster, sink)?;
        self.unstable.first().map_or(Ok(()), |place| Err(committed::unstable(self.group, place).into()))
    }

    /// True if no partition is on its way to this member: others may still have to give it up.
    fn is_meant_to_idle(&mut self) -> Result<bool, Failure> {
        let target = state::target_of(&mut self.cluster, self.group, self.member.id())?;
        self.member.wait_for_a_heartbeat();
        Ok(target == Some(0))
    }

    /// Starts to read these partitions: each at the position of this process or of the group, or
    /// else at the position that `-o` names.
    fn take_over(&mut self, held: Held) -> Result<(), Failure> {
        let both: Held = self.held.clone().into_iter().chain(held.clone()).collect();
        let mut topics = self.topics(&both)?;
        self.commit()?;
        topics.retain(|name, topic| {
            topic.leaders.retain(|partition, _| held.contains_key(&(name.clone(), *partition)));
            !topic.leaders.is_empty()
        });
        self.held = held;
        let positions = self.positions(topics.values().flat_map(places_of).collect(), &topics)?;
        self.fetcher.forget_ends();
        self.assign(topics, positions)
    }

    /// Positions of the group in these partitions, or later ones of this process. Partitions
    /// without a stable offset are `unstable` from now on, and no others.
    fn positions(
        &mut self,
        mut places: BTreeSet<TopicPartition>,
        topics: &Topics,
    ) -> Result<Offsets, Failure> {
        places
            .retain(|(name, index)| topics.get(name).is_some_and(|topic| topic.leaders.contains_key(index)));
        if places.is_empty() {
            self.unstable.clear();
            return Ok(Offsets::new());
        }
        let Stable { offsets: mut positions, unstable } =
            committed::fetch_stable(&mut self.cluster, self.group, &places)?;
        self.committed.retain(|place, _| !places.contains(place));
        self.committed.extend(positions.clone());
        for place in places.difference(&unstable) {
            let topic = topics.get(&place.0).map(|topic| topic.id);
            if let Some((id, printed)) = self.printed.get(place)
                && topic == Some(*id)
            {
                let position = positions.entry(place.clone()).or_insert(*printed);
                *position = (*position).max(*printed);
            }
        }
        self.unstable = unstable;
        Ok(positions)
    }

    /// Reads these topics from these positions, and partitions without a position as `-o` says;
    /// omits those in `unstable`.
    fn assign(&mut self, mut topics: Topics, mut positions: Offsets) -> Result<(), Failure> {
        for topic in topics.values_mut() {
            let is_stable = |index: i32| !self.unstable.contains(&(topic.name.clone(), index));
            topic.leaders.retain(|partition, _| is_stable(*partition));
        }
        topics.retain(|_, topic| !topic.leaders.is_empty());
        let mut fresh = topics.clone();
        for topic in fresh.values_mut() {
            topic.leaders.retain(|partition, leader| {
                *leader != NO_LEADER && !positions.contains_key(&(topic.name.clone(), *partition))
            });
        }
        let starts = self.args.start().positions(&mut self.cluster, &fresh, self.fetcher.isolation())?;
        self.committed.extend(starts.clone());
        positions.extend(starts);
        self.fetcher.assign(topics, positions);
        Ok(())
    }

    /// The topics of these partitions, with only these partitions. Omits deleted topics and drops
    /// their offsets: the coordinator revokes such partitions, and assigns those of a new topic
    /// with the name.
    fn topics(&mut self, held: &Held) -> Result<Topics, Failure> {
        let names: BTreeSet<&str> = held.keys().map(|(name, _)| name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let present = self.cluster.topics(Some(&names))?;
        let is_there = |name: &String, id: &Uuid| present.get(name).is_some_and(|topic| topic.id == *id);
        self.printed.retain(|(name, _), (id, _)| !names.contains(&name.as_str()) || is_there(name, id));
        let mut topics = Topics::new();
        for (place, id) in held {
            let Some(topic) = present.get(&place.0).filter(|topic| topic.id == *id) else { continue };
            let leader = topic.leaders.get(&place.1).copied().unwrap_or(NO_LEADER);
            let empty = || Topic { leaders: BTreeMap::new(), ..topic.clone() };
            topics.entry(place.0.clone()).or_insert_with(empty).leaders.insert(place.1, leader);
        }
        Ok(topics)
    }

    /// Notes the next offset of each partition once its records are written to the output.
    fn note_printed(&mut self) {
        for (place, position) in self.fetcher.positions() {
            if self.committed.get(place) != Some(position)
                && let Some(topic) = self.fetcher.topics().get(&place.0)
            {
                self.printed.insert(place.clone(), (topic.id, *position));
            }
        }
    }

    /// Commits the records printed since the last commit.
    fn commit(&mut self) -> Result<(), Failure> {
        let is_held = |place: &TopicPartition, id: &Uuid| self.held.get(place) == Some(id);
        let news = self.printed.iter().filter(|(place, (id, _))| is_held(place, id));
        let news: Offsets = news.map(|(place, (_, position))| (place.clone(), *position)).collect();
        if news.is_empty() {
            return Ok(());
        }
        self.member.commit(&mut self.cluster, &news)?;
        self.printed.retain(|place, _| !news.contains_key(place));
        self.committed.extend(news);
        Ok(())
    }

    fn bear(&mut self, outage: &mut Outage, failure: Failure) -> Result<(), Failure> {
        if is_healed_by_a_heartbeat(failure.cause()) {
            if !self.member.has_joined() {
                // The partitions may be others' by now.
                self.fetcher.assign(Topics::new(), Offsets::new());
                self.assigned = None;
                self.held = Held::new();
                self.unstable.clear();
            }
            return Ok(());
        }
        self.fetcher.doubt();
        let borne = outage.bear(&mut self.cluster, failure, &OutputReporter);
        self.member.hurry();
        // A requested stop ends the loop, and needs the broker only if there is something to
        // commit.
        if OutputReporter.is_asked_to_stop() { Ok(()) } else { borne }
    }

    /// Leaves the group, also after a failure. Fails if positions were not committed: other members
    /// will print those records again.
    fn end(mut self, ended: Result<(), Failure>) -> Result<(), Failure> {
        let committed = self.commit();
        self.member.leave(&mut self.cluster);
        let committed = committed.map_err(|failure| {
            let what =
                format!("printed records are not committed for group {}: {}", self.group, failure.line());
            Failure::with_next(
                what,
                format!("levada group describe {} shows the offsets at which it will resume", self.group),
            )
        });
        match (ended, committed) {
            (Ok(()), committed) => committed,
            (ended, Ok(())) => ended,
            (Err(failure), Err(uncommitted)) => {
                uncommitted.report();
                Err(failure)
            }
        }
    }
}
