//! Consuming in a share group: acquires records, prints them, and acknowledges each.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use levada_client::member::is_healed_by_a_heartbeat;
use levada_client::{
    Acknowledgement, AcquiredRecord, Cause, Cluster, FetchedRecord, Outage, ShareMember, Sink as _,
    Watch as _,
};
use levada_terminal::failure::Failure;

use super::Args;
use super::alone::AWAY_LIMIT;
use super::keys;
use super::sink::Sink;
use super::topics::Wanted;
use crate::notices::OutputReporter;
use crate::{interrupt, kafka_error, output};

/// Consecutive fetches without a record after which `--exit` ends the command: the first one may
/// precede the load of the group's state by the leaders.
const EMPTY_FETCHES: u32 = 3;

/// Value of `--ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Ack {
    /// Processed: not delivered again
    Accept,
    /// Another attempt, by any member
    Release,
    /// Cannot be processed: not delivered again
    Reject,
}

impl Ack {
    fn acknowledgement(self) -> Acknowledgement {
        match self {
            Self::Accept => Acknowledgement::Accept,
            Self::Release => Acknowledgement::Release,
            Self::Reject => Acknowledgement::Reject,
        }
    }

    /// The decision of a key, if it has one.
    pub(super) fn of_key(key: u8) -> Option<Self> {
        match key.to_ascii_lowercase() {
            b'a' => Some(Self::Accept),
            b'r' => Some(Self::Release),
            b'x' => Some(Self::Reject),
            _ => None,
        }
    }
}

struct Reading<'a> {
    args: &'a Args,
    cluster: Cluster,
    member: ShareMember,
    /// None: a key decides about each record.
    ack: Option<Ack>,
    empty_fetches: u32,
}

pub(super) fn run(
    args: &Args,
    group: &str,
    wanted: &Wanted,
    (cluster, sink): (Cluster, &mut Sink<'_>),
) -> Result<(), Failure> {
    if let Some(pattern) = wanted.expression() {
        let what = format!("share groups do not support patterns such as {pattern}: name the topics");
        return Err(Failure::Usage(what));
    }
    let topics = wanted.names().map(|name| format!(" --topic {name}"));
    let resources = format!("--group {group}{}", topics.collect::<String>());
    // Read includes describe, which the search for the coordinator needs.
    kafka_error::needing_all(read(args, group, wanted, (cluster, sink)), "read", &resources)
}

fn read(
    args: &Args,
    group: &str,
    wanted: &Wanted,
    (mut cluster, sink): (Cluster, &mut Sink<'_>),
) -> Result<(), Failure> {
    // A name without a topic is an error here, which the coordinator would wait for in silence.
    wanted.find(&mut cluster, &[])?;
    let member = ShareMember::new(group, wanted.names());
    let ack = args.ack.or_else(|| (!keys::are_available()).then_some(Ack::Accept));
    let mut reading = Reading { args, cluster, member, ack, empty_fetches: 0 };
    let ended = reading.run(sink);
    let was_cut = interrupt::is_asked() && args.has_end() && !reading.is_complete(sink);
    reading.end(ended)?;
    if was_cut { Err(Failure::Interrupted) } else { Ok(()) }
}

impl Reading<'_> {
    fn run(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let mut outage = Outage::none(self.args.exit.then_some(AWAY_LIMIT));
        while !interrupt::is_asked() && !self.is_complete(sink) {
            match self.step(sink) {
                Ok(()) => outage.over::<Failure>(&OutputReporter),
                Err(failure) => self.bear(&mut outage, failure)?,
            }
            self.report_lost();
        }
        Ok(())
    }

    fn is_complete(&self, sink: &Sink<'_>) -> bool {
        let is_empty = self.args.exit && self.empty_fetches >= EMPTY_FETCHES;
        sink.is_full() || is_empty || output::stdout_is_closed()
    }

    fn step(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.member.beat(&mut self.cluster)?;
        // Other members may print the records that this one does not.
        let records_max = if self.ack.is_some() { sink.left() } else { 1 };
        let records = self.member.fetch(&mut self.cluster, records_max)?;
        let is_empty = records.is_empty() && self.member.has_partitions();
        self.empty_fetches = if is_empty { self.empty_fetches + 1 } else { 0 };
        match self.ack {
            Some(ack) => self.print_all(&records, ack, sink),
            None => records.iter().try_for_each(|record| self.print_one(record, sink)),
        }
    }

    /// Prints records, and acknowledges them once they are written to the output.
    fn print_all(
        &mut self,
        records: &[AcquiredRecord],
        ack: Ack,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let mut printed = 0;
        for record in records {
            if sink.is_done() {
                break;
            }
            sink.take(&shown(record))?;
            printed += 1;
        }
        sink.flush()?;
        // Records that are released immediately come again, before those that were not seen yet,
        // until no attempt is left. The end of the session releases all of them.
        if ack == Ack::Release && self.args.exit {
            return Ok(());
        }
        let printed = records.iter().take(printed);
        printed.for_each(|record| self.member.acknowledge(record, ack.acknowledgement()));
        Ok(())
    }

    /// Prints a record, and acknowledges it as a key says. Without a key, it is released at the
    /// end.
    fn print_one(&mut self, record: &AcquiredRecord, sink: &mut Sink<'_>) -> Result<(), Failure> {
        if sink.is_done() {
            return Ok(());
        }
        sink.take(&shown(record))?;
        sink.flush()?;
        let Some(ack) = self.wait_for_key(record)? else { return Ok(()) };
        self.member.acknowledge(record, ack.acknowledgement());
        Ok(self.member.flush(&mut self.cluster)?)
    }

    /// Keeps the membership and the lock of the record until a key is pressed; none if a signal
    /// arrives first.
    fn wait_for_key(&mut self, record: &AcquiredRecord) -> Result<Option<Ack>, Failure> {
        let keys = keys::Keys::open("accept (a), release (r) or reject (x)? ")?;
        let mut locked = Instant::now();
        while !interrupt::is_asked() {
            if let Some(ack) = keys.next()?.and_then(Ack::of_key) {
                keys.close(match ack {
                    Ack::Accept => "accept",
                    Ack::Release => "release",
                    Ack::Reject => "reject",
                });
                return Ok(Some(ack));
            }
            self.member.beat(&mut self.cluster)?;
            let lock = self.member.lock_duration().unwrap_or(Duration::MAX);
            if locked.elapsed() > lock / 2 {
                self.member.renew(&mut self.cluster, record)?;
                locked = Instant::now();
            }
        }
        keys.close("");
        Ok(None)
    }

    fn report_lost(&mut self) {
        for lost in self.member.take_lost() {
            let (topic, partition, code) = (lost.topic, lost.partition, kafka_error::name(lost.code));
            tell!(
                "{topic}/{partition}: acknowledgements arrived too late ({code}); the records are delivered again"
            );
        }
    }

    fn bear(&mut self, outage: &mut Outage, failure: Failure) -> Result<(), Failure> {
        if is_healed_by_a_heartbeat(failure.cause()) {
            return Ok(());
        }
        if failure.cause() == Cause::Connection {
            self.member.disconnected();
        }
        let borne = outage.bear(&mut self.cluster, failure, &OutputReporter);
        self.member.hurry();
        // A requested stop ends the loop, and needs the broker only if there is something to
        // acknowledge.
        if OutputReporter.is_asked_to_stop() { Ok(()) } else { borne }
    }

    /// Leaves the group, also after a failure. Fails if acknowledgements were not sent: other
    /// members will print those records again.
    fn end(mut self, ended: Result<(), Failure>) -> Result<(), Failure> {
        let left = self.member.leave(&mut self.cluster).map_err(Failure::from);
        self.report_lost();
        let left = left.map_err(|failure| {
            let what = format!("printed records are not acknowledged: {}", failure.line());
            Failure::with_next(what, "the records are delivered again when their locks expire")
        });
        match (ended, left) {
            (Ok(()), left) => left,
            (ended, Ok(())) => ended,
            (Err(failure), Err(unacknowledged)) => {
                unacknowledged.report();
                Err(failure)
            }
        }
    }
}

fn shown(acquired: &AcquiredRecord) -> FetchedRecord<'_> {
    FetchedRecord {
        topic: &acquired.topic,
        partition: acquired.partition,
        offset: acquired.offset,
        timestamp_ms: acquired.timestamp_ms,
        deliveries: Some(acquired.deliveries),
        record: &acquired.record,
    }
}
