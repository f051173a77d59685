//! Consuming without a group: this process keeps its own position in each partition.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use levada_client::fetcher::places_of;
use levada_client::{Cluster, Fetcher, NO_LEADER, Offsets, Outage, TopicPartition, Topics};
use levada_terminal::failure::Failure;

use super::Args;
use super::limit::Limit;
use super::sink::Sink;
use super::start::Start;
use super::topics::Wanted;
use crate::notices::OutputReporter;
use crate::output;

/// Interval between checks for new partitions, and for new topics that match a pattern.
const LOOK: Duration = Duration::from_secs(5);

/// Longest outage of a broker, after which a command with an end fails.
pub(super) const AWAY_LIMIT: Duration = Duration::from_secs(120);

struct Reading<'a> {
    args: &'a Args,
    wanted: &'a Wanted,
    limit: &'a Limit,
    cluster: Cluster,
    fetcher: Fetcher,
    /// Partitions without a leader since the start, which begin at the position of `-o`.
    starting: BTreeSet<TopicPartition>,
    looked: Instant,
}

pub(super) fn run(
    args: &Args,
    mut cluster: Cluster,
    wanted: &Wanted,
    limit: &Limit,
    sink: &mut Sink<'_>,
) -> Result<(), Failure> {
    let topics = wanted.find(&mut cluster, &args.partition)?;
    if topics.is_empty() {
        let what = format!("no topic matches {}", wanted.shown());
        if args.exit {
            return Err(Failure::with_next(what, "levada topic list shows all topics"));
        }
        tell!("{what} yet");
    }
    let mut reading = Reading {
        args,
        wanted,
        limit,
        cluster,
        fetcher: Fetcher::new(args.isolation.isolation()),
        starting: topics.values().flat_map(places_of).collect(),
        looked: Instant::now(),
    };
    reading.assign(topics, Offsets::new())?;
    let mut outage = Outage::none(args.exit.then_some(AWAY_LIMIT));
    while !reading.is_done(sink) {
        let stepped = reading.step(sink);
        sink.flush()?;
        match stepped {
            Ok(()) => outage.over::<Failure>(&OutputReporter),
            Err(failure) => {
                reading.fetcher.doubt();
                let borne = outage.bear(&mut reading.cluster, failure, &OutputReporter);
                // Without a reader of the output the broker is not needed any more.
                if !output::stdout_is_closed() {
                    borne?;
                }
            }
        }
    }
    Ok(())
}

impl Reading<'_> {
    fn is_done(&self, sink: &Sink<'_>) -> bool {
        sink.is_done() || output::stdout_is_closed() || self.fetcher.has_reached_ends()
    }

    fn step(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        if self.fetcher.is_outdated() || (!self.fetcher.has_ends() && self.looked.elapsed() >= LOOK) {
            self.look()?;
        }
        if self.limit.is_due() {
            let (is_first, topics) = (!self.fetcher.has_ends(), self.fetcher.without_end());
            if is_first || !topics.is_empty() {
                let ends = self.limit.ends(&mut self.cluster, &topics, self.fetcher.isolation())?;
                self.fetcher.end_at(ends, self.limit.is_of_logs());
            }
            if is_first {
                return Ok(());
            }
        }
        self.fetcher.fetch(&mut self.cluster, sink)
    }

    /// Reads the list of topics again. New partitions are read from their start, and so are topics
    /// that were deleted and created again.
    fn look(&mut self) -> Result<(), Failure> {
        let mut topics = self.wanted.find_again(&mut self.cluster, &self.args.partition)?;
        if self.fetcher.has_ends() {
            for (name, topic) in &mut topics {
                topic.leaders.retain(|partition, _| self.fetcher.holds(&(name.clone(), *partition)));
            }
            topics.retain(|_, topic| !topic.leaders.is_empty());
        }
        let mut positions = self.fetcher.positions().clone();
        positions.retain(|(name, _), _| {
            let id = |topics: &Topics| topics.get(name).map(|topic| topic.id);
            id(&topics).is_some() && id(&topics) == id(self.fetcher.topics())
        });
        self.assign(topics, positions)?;
        self.looked = Instant::now();
        Ok(())
    }

    /// Reads these topics, from these positions. Other partitions begin at their start, or if they
    /// were there at the start of the command, as `-o` says.
    fn assign(&mut self, topics: Topics, mut positions: Offsets) -> Result<(), Failure> {
        let isolation = self.fetcher.isolation();
        let unplaced = |is_wanted: &dyn Fn(&TopicPartition) -> bool| {
            let mut topics = topics.clone();
            for (name, topic) in &mut topics {
                topic.leaders.retain(|partition, leader| {
                    let place = (name.clone(), *partition);
                    *leader != NO_LEADER && !positions.contains_key(&place) && is_wanted(&place)
                });
            }
            topics.retain(|_, topic| !topic.leaders.is_empty());
            topics
        };
        let (starting, new) = (
            unplaced(&|place| self.starting.contains(place)),
            unplaced(&|place| !self.starting.contains(place)),
        );
        positions.extend(self.args.start().positions(&mut self.cluster, &starting, isolation)?);
        positions.extend(Start::Earliest.positions(&mut self.cluster, &new, isolation)?);
        self.starting.retain(|place| !positions.contains_key(place));
        self.fetcher.assign(topics, positions);
        Ok(())
    }
}
