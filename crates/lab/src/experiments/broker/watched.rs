//! Cost of observation: the cost of produce and fetch requests in a broker with many partitions.
//! Each is measured without observers and with observers: an open page of the console and scrapes
//! by Prometheus, or clients that push their own metrics.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::pushers::Pushers;
use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames::{self, TopicPartition};
use crate::experiments::broker::harness::metrics::Scrape;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::replay;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::harness::program::allow_descriptors;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::{Metric, Verdict};

mod pushers;

const PRODUCE: &str = "produce, 64 KiB";
const FETCH: &str = "fetch, 1 MiB";

const BATCH_LEN: usize = 64 << 10;
const FETCH_BYTES: i32 = 1 << 20;
/// Number of batches that are sent between two readings of the clock.
const TURN: usize = 64;
/// Interval of the scrapes, a common setting of Prometheus.
const SCRAPED_EVERY: Duration = Duration::from_secs(5);

/// Observers of the broker in the second case of each group.
#[derive(Debug, Clone, Copy)]
enum Observers {
    /// A page of the console and a scraper.
    Watchers,
    /// This number of clients that push metrics.
    Pushers(usize),
}

impl Observers {
    /// Names of the case without observers and of the case with observers.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Watchers => ["nobody looks", "watched"],
            Self::Pushers(_) => ["no subscription", "clients push"],
        }
    }
}

/// Observers of a run, which end when the value is dropped.
enum Observing {
    Nobody,
    /// Drop closes the page and ends the scrapes.
    Watchers(#[expect(dead_code, reason = "only its drop has an effect")] Watchers),
    Pushers(Pushers),
}

/// The experiment, with its broker.
#[derive(Debug)]
pub struct Watched<'b> {
    bench: &'b Bench,
    observers: Observers,
    node: Node,
    filled: Filled,
    /// Number of topics so far; each run that produces creates a new one.
    topics: usize,
}

/// A page of the console that follows the broker, and a scraper. Drop closes the page and ends the
/// scraper.
struct Watchers {
    page: TcpStream,
    reader: Option<JoinHandle<()>>,
    scraper: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Watchers {
    /// Opens the page and returns once it has received the first figures. The first scrape follows
    /// soon.
    fn open(http: SocketAddr) -> Result<Self, LabError> {
        let failed = LabError::step(format!("cannot follow http://{http}/live"));
        let (page, mut stream) = follow(http).map_err(failed)?;
        let reader = thread::spawn(move || {
            let mut shown = [0; 4096];
            while stream.read(&mut shown).is_ok_and(|len| len > 0) {}
        });
        let (stop, stopped) = mpsc::channel();
        let scraper = thread::spawn(move || {
            // The scraper ends if a scrape fails, because failed scrapes would look like
            // observation without cost. The broker has already answered the page.
            while Scrape::of(Some(http)).is_ok() {
                match stopped.recv_timeout(SCRAPED_EVERY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        Ok(Self { page, reader: Some(reader), scraper: Some((stop, scraper)) })
    }
}

/// Requests the event stream of the console's overview, and waits for its first event.
fn follow(http: SocketAddr) -> io::Result<(TcpStream, TcpStream)> {
    let mut stream = TcpStream::connect(http)?;
    write!(stream, "GET /live HTTP/1.1\r\nhost: {http}\r\n\r\n")?;
    let mut seen = Vec::new();
    let mut part = [0; 4096];
    while !seen.windows(6).any(|bytes| bytes == b"data: ") {
        match stream.read(&mut part)? {
            0 => return Err(io::Error::other(String::from_utf8_lossy(&seen).into_owned())),
            len => seen.extend_from_slice(&part[..len]),
        }
    }
    Ok((stream.try_clone()?, stream))
}

impl Drop for Watchers {
    fn drop(&mut self) {
        // The call fails only if the broker has already closed the page.
        let _ = self.page.shutdown(Shutdown::Both);
        let reader = self.reader.take();
        let scraper = self.scraper.take().map(|(stop, scraper)| {
            drop(stop);
            scraper
        });
        for thread in reader.into_iter().chain(scraper) {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}

impl<'b> Watched<'b> {
    /// Starts a Levada broker with many partitions and fills a topic.
    ///
    /// # Errors
    /// The broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        Self::by(Observers::Watchers, bench, systems)
    }

    /// Starts the same broker for observation by clients that push metrics.
    ///
    /// # Errors
    /// As [`Watched::new`], or this process may not open a connection for each client.
    pub fn telemetry(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let clients = bench.scale().choose(20, 1_000, 1_000, 1_000);
        allow_descriptors(clients as u64 + 200)?;
        Self::by(Observers::Pushers(clients), bench, systems)
    }

    fn by(observers: Observers, bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let mut node = Node::new(bench, systems, System::Levada)?;
        node.start(bench)?;
        let bytes = bench.scale().choose(1 << 20, 64 << 20, 256 << 20, 256 << 20);
        bench.reserve(bytes)?;
        topic::create(&node, "others", bench.scale().choose(10, 100, 1_000, 1_000), &[])?;
        topic::create(&node, "read", 1, &[])?;
        let place = TopicPartition { topic: "read".to_owned(), partition: 0 };
        let filled = topic::fill(&node, place, BATCH_LEN, bytes)?;
        topic::sync(&node, &filled.place)?;
        Ok(Watched { bench, observers, node, filled, topics: 0 })
    }

    /// Produces until `time` is over. Returns the bytes of the records, and the processor time of
    /// the broker.
    fn produce(&mut self, time: Duration) -> Result<(u64, Duration), LabError> {
        self.topics += 1;
        let place = TopicPartition { topic: format!("written-{:04}", self.topics), partition: 0 };
        let (batch, records) = frames::batch(BATCH_LEN, 1024, 1)?;
        let turn = Filled { place, batch_len: batch.len(), records, batches: TURN };
        let frame = frames::produce(&turn.place, batch.freeze(), 1)?;
        let keep = ("retention.bytes", &*(256 << 20).to_string());
        topic::create(&self.node, &turn.place.topic, 1, &[("file.delete.delay.ms", "1000"), keep])?;
        let mut connection = Connection::open(self.node.address())?;
        let (mut turns, before, start) = (0, Spent::of(self.node.pid()), Instant::now());
        while turns == 0 || start.elapsed() < time {
            topic::send(&mut connection, &frame, &turn, turn.offset(turns * TURN))?;
            turns += 1;
        }
        let spent = Spent::since(self.node.pid(), &before);
        topic::delete(&self.node, &turn.place.topic)?;
        Ok((turn.bytes() * turns as u64, spent))
    }

    /// Reads the same topic again and again until `time` is over. Returns the bytes of the records,
    /// and the processor time of the broker.
    fn fetch(&self, time: Duration) -> Result<(u64, Duration), LabError> {
        let mut connection = Connection::open(self.node.address())?;
        let (mut batches, before, start) = (0, Spent::of(self.node.pid()), Instant::now());
        while batches == 0 || start.elapsed() < time {
            let next = batches % self.filled.batches;
            batches += replay::step(&mut connection, &self.filled, next, FETCH_BYTES)?;
        }
        Ok(((batches * self.filled.batch_len) as u64, Spent::since(self.node.pid(), &before)))
    }

    fn observe(&self, case: &Case) -> Result<Observing, LabError> {
        let is_observed = case.name == self.observers.names()[1];
        Ok(match (self.observers, self.node.http().filter(|_| is_observed)) {
            (_, None) => Observing::Nobody,
            (Observers::Watchers, Some(http)) => Observing::Watchers(Watchers::open(http)?),
            (Observers::Pushers(count), Some(_)) => Observing::Pushers(Pushers::open(&self.node, count)?),
        })
    }

    /// Checks that an observed broker reports the expected values and that its records are
    /// complete.
    fn check(&self, observing: &Observing) -> Result<Verdict, LabError> {
        let verdict = topic::verify(self.node.address(), &self.filled, 0, FETCH_BYTES)?;
        let scrape = Scrape::of(self.node.http())?;
        let (what, value, least) = match (observing, self.observers) {
            (Observing::Nobody, _) => return Ok(verdict),
            (Observing::Pushers(_), Observers::Pushers(count)) => {
                ("clients", pushers::known(&scrape), count as f64)
            }
            _ => ("partitions", scrape.sum("levada_partitions"), 2.0),
        };
        if value.is_none_or(|value| value < least) {
            return Ok(Verdict { sound: false, what: format!("a scrape reports {value:?} {what}") });
        }
        Ok(verdict)
    }
}

impl Experiment for Watched<'_> {
    fn name(&self) -> &'static str {
        match self.observers {
            Observers::Watchers => "broker-watched",
            Observers::Pushers(_) => "broker-telemetry",
        }
    }

    fn shows(&self) -> String {
        let partitions = self.bench.scale().choose(10, 100, 1_000, 1_000);
        let by = match self.observers {
            Observers::Watchers => {
                let seconds = SCRAPED_EVERY.as_secs();
                format!(
                    "an open page of its console and a scrape of its metrics every {seconds} s, and without both"
                )
            }
            Observers::Pushers(count) => {
                let seconds = pushers::INTERVAL.as_secs();
                format!("{count} clients that push their own metrics every {seconds} s, and without them")
            }
        };
        format!("cost of records for a broker of {partitions} partitions, with {by}")
    }

    fn metrics(&self) -> Vec<Metric> {
        super::moving()
    }

    fn cases(&self) -> Vec<Case> {
        let names = self.observers.names();
        [PRODUCE, FETCH].into_iter().flat_map(|group| names.map(|name| Case::new(group, name))).collect()
    }

    fn worker(&self, _case: &Case) -> Option<u32> {
        Some(self.node.pid())
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let observing = self.observe(case)?;
        let outcome = if pass == Pass::Integrity {
            Outcome::Checked(self.check(&observing)?)
        } else {
            let time = Duration::from_millis(self.bench.scale().choose(50, 2_000, 5_000, 10_000));
            let (_pinned, start) = (self.bench.places().pin_receiver(), Instant::now());
            let (bytes, cpu) = if case.group == PRODUCE { self.produce(time)? } else { self.fetch(time)? };
            Outcome::Measured(super::moved(bytes, cpu, start.elapsed()))
        };
        if let Observing::Pushers(pushers) = observing {
            pushers.close(&self.node)?;
        }
        Ok(outcome)
    }
}
