//! Consuming in a group: commits the offsets of records after they were printed.

use std::collections::BTreeSet;

use super::alone::AWAY_LIMIT;
use super::fetcher::Fetcher;
use super::limit::Limit;
use super::member::{Member, is_healed_by_a_heartbeat};
use super::sink::Sink;
use super::topics::Wanted;
use super::{Args, Offsets, Topics};
use crate::cluster::{Cluster, Outage, TopicPartition};
use crate::failure::Failure;
use crate::group::{offsets, state};
use crate::{interrupt, kafka_error, output};

struct Reading<'a> {
    args: &'a Args,
    group: &'a str,
    limit: &'a Limit,
    cluster: Cluster,
    member: Member,
    fetcher: Fetcher,
    /// The partitions of the last heartbeat's answer, until they are taken over.
    assigned: Option<BTreeSet<TopicPartition>>,
    ends: Option<Offsets>,
    /// Committed offsets of the partitions that are read, as the group has them.
    committed: Offsets,
    /// The furthest place reached in each partition that was ever read: after a time without
    /// membership, records that were printed and could not be committed are not printed again.
    reached: Offsets,
    /// The leaders may have changed.
    is_stale: bool,
    /// With `--exit`: the coordinator intends no partition for this member.
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
    interrupt::catch()?;
    // A name without a topic is an error here, which the coordinator would wait for in silence.
    wanted.find(&mut cluster, &[])?;
    let mut reading = Reading {
        args,
        group,
        limit,
        cluster,
        member: Member::new(group, wanted),
        fetcher: Fetcher::new(args.isolation.isolation()),
        assigned: None,
        ends: None,
        committed: Offsets::new(),
        reached: Offsets::new(),
        is_stale: false,
        has_nothing_to_read: false,
    };
    let mut outage = Outage::none(args.exit.then_some(AWAY_LIMIT));
    while !reading.is_done(sink) {
        let stepped = reading.step(sink);
        sink.flush()?;
        match stepped.and_then(|()| reading.commit()) {
            Ok(()) => outage.over(),
            Err(failure) => reading.bear(&mut outage, failure)?,
        }
    }
    reading.end()
}

impl Reading<'_> {
    fn is_done(&self, sink: &Sink<'_>) -> bool {
        let has_some = !self.fetcher.positions().is_empty();
        sink.is_done()
            || output::stdout_is_closed()
            || self.has_nothing_to_read
            || (has_some && self.ends.as_ref().is_some_and(|ends| self.fetcher.has_reached(ends)))
    }

    fn step(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        // A heartbeat would acknowledge the last assignment.
        if self.assigned.is_none() {
            self.assigned = self.member.beat(&mut self.cluster)?;
        }
        if let Some(places) = self.assigned.clone() {
            self.take_over(&places)?;
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
        if self.is_stale {
            let places = self.fetcher.positions().keys().cloned().collect();
            let topics = self.topics(&places)?;
            self.fetcher.assign(topics, self.fetcher.positions().clone());
            self.is_stale = false;
        }
        if self.ends.is_none() && self.limit.is_due() && !self.fetcher.positions().is_empty() {
            let (topics, isolation) = (self.fetcher.topics(), self.fetcher.isolation());
            self.ends = Some(self.limit.ends(&mut self.cluster, topics, isolation)?);
        }
        self.fetcher.fetch(&mut self.cluster, self.ends.as_ref(), sink)
    }

    /// True if no partition is on its way to this member: others may still have to give it up.
    fn is_meant_to_idle(&mut self) -> Result<bool, Failure> {
        let target = state::target_of(&mut self.cluster, self.group, self.member.id())?;
        self.member.wait_for_a_heartbeat();
        Ok(target == Some(0))
    }

    /// Starts to read these partitions: each at the position of this process or of the group, or
    /// else at the position that `-o` names.
    fn take_over(&mut self, places: &BTreeSet<TopicPartition>) -> Result<(), Failure> {
        self.commit()?;
        let topics = self.topics(places)?;
        let mut committed = Offsets::new();
        for (place, one) in offsets::fetch(&mut self.cluster, self.group)? {
            if places.contains(&place) {
                committed.insert(place, one.offset);
            }
        }
        let mut positions = committed.clone();
        for (place, reached) in self.reached.iter().filter(|(place, _)| places.contains(*place)) {
            let position = positions.entry(place.clone()).or_insert(*reached);
            *position = (*position).max(*reached);
        }
        let mut fresh = topics.clone();
        for topic in fresh.values_mut() {
            topic.leaders.retain(|partition, _| !positions.contains_key(&(topic.name.clone(), *partition)));
        }
        let starts = self.args.start().positions(&mut self.cluster, &fresh, self.fetcher.isolation())?;
        committed.extend(starts.clone());
        positions.extend(starts);
        self.committed = committed;
        self.fetcher.assign(topics, positions);
        self.ends = None;
        self.is_stale = false;
        Ok(())
    }

    /// The topics of these partitions, with these partitions alone.
    fn topics(&mut self, places: &BTreeSet<TopicPartition>) -> Result<Topics, Failure> {
        let mut topics = Topics::new();
        let names: BTreeSet<&String> = places.iter().map(|(name, _)| name).collect();
        for name in names {
            let mut topic = self.cluster.topic(name, false)?;
            topic.leaders.retain(|partition, _| places.contains(&(name.clone(), *partition)));
            topics.insert(name.clone(), topic);
        }
        Ok(topics)
    }

    /// Commits the records printed since the last commit.
    fn commit(&mut self) -> Result<(), Failure> {
        let news = self.fetcher.positions().iter();
        let news: Offsets = news
            .filter(|(place, position)| self.committed.get(*place) != Some(*position))
            .map(|(place, position)| (place.clone(), *position))
            .collect();
        if news.is_empty() {
            return Ok(());
        }
        self.reached.extend(news.clone());
        self.member.commit(&mut self.cluster, &news)?;
        self.committed.extend(news);
        Ok(())
    }

    fn bear(&mut self, outage: &mut Outage, failure: Failure) -> Result<(), Failure> {
        if is_healed_by_a_heartbeat(&failure) {
            if !self.member.has_joined() {
                // The partitions may be others' by now.
                self.fetcher.assign(Topics::new(), Offsets::new());
                self.assigned = None;
            }
            return Ok(());
        }
        self.is_stale = true;
        let is_over = || interrupt::is_asked() || output::stdout_is_closed();
        let borne = outage.bear(&mut self.cluster, failure, &is_over);
        self.member.hurry();
        // A requested stop ends the loop, and needs the broker only if there is something to
        // commit.
        if is_over() { Ok(()) } else { borne }
    }

    /// Leaves the group. Fails if positions were not committed: other members will print those
    /// records again.
    fn end(mut self) -> Result<(), Failure> {
        let committed = self.commit();
        self.member.leave(&mut self.cluster);
        committed.map_err(|failure| {
            let what =
                format!("printed records are not committed for group {}: {}", self.group, failure.line());
            Failure::with_next(
                what,
                format!("levada group describe {} shows the offsets at which it will resume", self.group),
            )
        })
    }
}
