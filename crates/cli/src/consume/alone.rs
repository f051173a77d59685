//! Consuming without a group: this process keeps its own position in each partition.

use std::time::{Duration, Instant};

use super::fetcher::Fetcher;
use super::limit::Limit;
use super::sink::Sink;
use super::start::Start;
use super::topics::Wanted;
use super::{Args, Offsets};
use crate::cluster::{Cluster, Outage};
use crate::failure::Failure;
use crate::{interrupt, output};

/// Interval between checks for new partitions, and for new topics that match a pattern.
const LOOK: Duration = Duration::from_secs(5);

/// Time that a broker may be away before a command that ends by itself gives up.
pub(super) const AWAY_LIMIT: Duration = Duration::from_secs(120);

struct Reading<'a> {
    args: &'a Args,
    wanted: &'a Wanted,
    limit: &'a Limit,
    cluster: Cluster,
    fetcher: Fetcher,
    ends: Option<Offsets>,
    looked: Instant,
    /// The leaders may have changed.
    is_stale: bool,
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
    let isolation = args.isolation.isolation();
    let starts = args.start().positions(&mut cluster, &topics, isolation)?;
    let mut fetcher = Fetcher::new(isolation);
    fetcher.assign(topics, starts);
    let looked = Instant::now();
    let mut reading = Reading { args, wanted, limit, cluster, fetcher, ends: None, looked, is_stale: false };
    let mut outage = Outage::none(args.exit.then_some(AWAY_LIMIT));
    while !reading.is_done(sink) {
        let stepped = reading.step(sink);
        sink.flush()?;
        match stepped {
            Ok(()) => outage.over(),
            Err(failure) => {
                reading.is_stale = true;
                let is_over = || interrupt::is_asked() || output::stdout_is_closed();
                let borne = outage.bear(&mut reading.cluster, failure, &is_over);
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
        sink.is_done()
            || output::stdout_is_closed()
            || self.ends.as_ref().is_some_and(|ends| self.fetcher.has_reached(ends))
    }

    fn step(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        if self.ends.is_none() && self.limit.is_due() {
            let (topics, isolation) = (self.fetcher.topics(), self.fetcher.isolation());
            self.ends = Some(self.limit.ends(&mut self.cluster, topics, isolation)?);
            return Ok(());
        }
        if self.is_stale || (self.ends.is_none() && self.looked.elapsed() >= LOOK) {
            self.look()?;
        }
        self.fetcher.fetch(&mut self.cluster, self.ends.as_ref(), sink)
    }

    /// Reads the list of topics again. New partitions are read from their start, and so are topics
    /// that were deleted and created again.
    fn look(&mut self) -> Result<(), Failure> {
        let mut topics = self.wanted.find(&mut self.cluster, &self.args.partition)?;
        if self.ends.is_some() {
            topics.retain(|name, _| self.fetcher.topics().contains_key(name));
        }
        let mut positions =
            Start::Earliest.positions(&mut self.cluster, &topics, self.fetcher.isolation())?;
        for (place, position) in self.fetcher.positions() {
            let is_same = match (self.fetcher.topics().get(&place.0), topics.get(&place.0)) {
                (Some(before), Some(now)) => before.id == now.id,
                _ => false,
            };
            if is_same {
                positions.insert(place.clone(), *position);
            }
        }
        self.fetcher.assign(topics, positions);
        self.looked = Instant::now();
        self.is_stale = false;
        Ok(())
    }
}
