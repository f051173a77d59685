//! Writers and readers of tiered partitions that go on whatever happens to the broker and to its
//! store. A writer repeats each request until it is acknowledged, so that the ledger of its
//! partition has all records; a reader compares what it reads with the ledger.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::EARLIEST;
use super::ledger::{Acknowledged, PartitionLedger, Retention, number_of, value};
use crate::raw::{self, Batch, Connection, FetchRequest};
use crate::replicas;

/// Longest time without a response that counts.
const LIMIT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);
/// Pause of a writer after a batch.
const PACE: Duration = Duration::from_millis(15);
const RECORDS_MAX: u32 = 12;
const BATCHES_MAX: u32 = 6;
const OUT_OF_RANGE: i16 = 1;
/// Errors after which a client repeats its request: the store fails (-1), the broker starts or
/// stops (3, 5, 6, 9, 14, 15, 16, 19), requests time out (7), the transaction before is being ended
/// (51), the high watermark is older than the election (78).
const REPEATED: [i16; 12] = [-1, 3, 5, 6, 7, 9, 14, 15, 16, 19, 51, 78];

/// A partition with a writer.
#[derive(Debug)]
pub struct Place {
    /// Topic of the partition.
    pub topic: &'static str,
    /// Number of the partition.
    pub index: i32,
    /// Number of the partition among all partitions, which its values contain.
    pub id: u32,
    /// True if its writer has transactions.
    pub is_transactional: bool,
    ledger: Mutex<PartitionLedger>,
}

impl Place {
    /// An empty partition with these limits.
    pub fn new((topic, index): (&'static str, i32), id: u32, retention: Retention) -> Self {
        let ledger = Mutex::new(PartitionLedger::of(retention));
        Self { topic, index, id, is_transactional: false, ledger }
    }

    /// Has the writer use transactions, some of which it aborts.
    #[must_use]
    pub fn transactional(self) -> Self {
        Self { is_transactional: true, ..self }
    }

    /// Ledger of the partition, locked.
    pub fn ledger(&self) -> MutexGuard<'_, PartitionLedger> {
        self.ledger.lock().expect("no panic with the lock")
    }

    fn key(&self) -> (&'static str, i32) {
        (self.topic, self.index)
    }

    /// Compares records that were read from a range of offsets with the ledger.
    fn compare(&self, range: &Range<i64>, found: &[(i64, u64)], committed_only: bool) -> Result<(), String> {
        let expected = self.ledger().expected(range, committed_only);
        let Some(at) = (0..expected.len().max(found.len())).find(|at| expected.get(*at) != found.get(*at))
        else {
            return Ok(());
        };
        let (expected, found) = (expected.get(at), found.get(at));
        Err(format!(
            "{}-{}, offsets {range:?}, record {at}: {expected:?} was written, {found:?} was read",
            self.topic, self.index
        ))
    }

    /// The log begins at an offset: it must not have lost records that it has promised.
    fn check_start(&self, log_start: i64) -> Result<(), String> {
        let promised = self.ledger().promised_from(now_ms());
        if log_start <= promised {
            return Ok(());
        }
        Err(format!(
            "{}-{} begins at offset {log_start}, and records from {promised} on were promised",
            self.topic, self.index
        ))
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_millis()).expect("a time of this age")
}

/// Partitions under load, and what went wrong.
#[derive(Debug)]
pub struct TieredLoad {
    address: SocketAddr,
    /// Partitions of the load, each with a writer.
    pub places: Vec<Place>,
    complaints: Mutex<Vec<String>>,
    writers_end: AtomicBool,
    readers_end: AtomicBool,
    replays: AtomicU64,
}

impl TieredLoad {
    /// Partitions of a broker at this address, without writers and readers yet.
    pub fn new(address: SocketAddr, places: Vec<Place>) -> Arc<Self> {
        Arc::new(Self {
            address,
            places,
            complaints: Mutex::default(),
            writers_end: AtomicBool::new(false),
            readers_end: AtomicBool::new(false),
            replays: AtomicU64::new(0),
        })
    }

    /// Starts a writer for each partition.
    pub fn write(self: &Arc<Self>, seeds: &mut StdRng) -> Vec<JoinHandle<()>> {
        let start = |at: usize| {
            let (own, seed) = (self.clone(), seeds.random());
            thread::spawn(move || own.note(Writer::run(&own, &own.places[at], seed)))
        };
        (0..self.places.len()).map(start).collect()
    }

    /// Starts a number of readers.
    pub fn read(self: &Arc<Self>, seeds: &mut StdRng, count: usize) -> Vec<JoinHandle<()>> {
        let start = |_| {
            let (own, seed) = (self.clone(), seeds.random());
            thread::spawn(move || own.note(own.read_until_the_end(seed)))
        };
        (0..count).map(start).collect()
    }

    /// Has the writers end their transactions, and themselves.
    pub fn end_writers(&self) {
        self.writers_end.store(true, Ordering::Relaxed);
    }

    /// Has the readers end with their next replay.
    pub fn end_readers(&self) {
        self.readers_end.store(true, Ordering::Relaxed);
    }

    /// The offset of a partition for a timestamp of ListOffsets.
    ///
    /// # Errors
    /// The broker has no response.
    pub fn offset_at(&self, place: &Place, timestamp: i64) -> Result<i64, String> {
        Client::of(self.address).offset_at(place, timestamp)
    }

    /// Number of replays that have ended.
    pub fn replays(&self) -> u64 {
        self.replays.load(Ordering::Relaxed)
    }

    /// Fails if something was not as it should be.
    pub fn assert_fine(&self) {
        let complaints = self.complaints.lock().expect("no panic with the lock");
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    fn note(&self, outcome: Result<(), String>) {
        if let Err(complaint) = outcome {
            println!("{complaint}");
            self.complaints.lock().expect("no panic with the lock").push(complaint);
        }
    }

    fn read_until_the_end(&self, seed: u64) -> Result<(), String> {
        let mut plan = StdRng::seed_from_u64(seed);
        let mut client = Client::of(self.address);
        while !self.readers_end.load(Ordering::Relaxed) {
            let place = &self.places[plan.random_range(0..self.places.len())];
            let (start, end) = (client.log_start(place)?, place.ledger().settled());
            let is_whole = plan.random_bool(0.6);
            let from = if is_whole || start >= end { start } else { plan.random_range(start..end) };
            let replay = Replay {
                place,
                committed_only: plan.random_bool(0.5),
                max_bytes: 1 << plan.random_range(10..21),
            };
            replay.run(&mut client, from..end)?;
            if !place.is_transactional && start < end {
                find_time(&mut client, place, plan.random_range(start..end))?;
            }
            self.replays.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Reads all records that were acknowledged and not deleted; returns the log's start of each
    /// partition.
    ///
    /// # Errors
    /// The first difference.
    pub fn read_all(&self) -> Result<Vec<i64>, String> {
        let mut client = Client::of(self.address);
        let read = |place| {
            let (start, end) = (client.log_start(place)?, place.ledger().settled());
            for committed_only in [false, true] {
                Replay { place, committed_only, max_bytes: 1 << 20 }.run(&mut client, start..end)?;
            }
            Ok(start)
        };
        self.places.iter().map(read).collect()
    }

    /// Deletes the records of a partition before an offset, if the broker answers.
    pub fn trim(&self, place: &Place, before: i64) {
        // In the ledger first: the response may get lost.
        place.ledger().trim(before);
        let request = raw::delete_records(place.key(), before);
        let answer = Connection::try_open(self.address).and_then(|mut broker| broker.try_call(&request));
        let deleted = answer.map(|answer| raw::deleted_before(&answer));
        println!("trim of {}-{} to offset {before}: {deleted:?}", place.topic, place.index);
    }
}

/// A client that repeats its requests.
struct Client {
    address: SocketAddr,
    connection: Option<Connection>,
}

impl Client {
    fn of(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    fn try_call(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::try_open(self.address)?,
        };
        let response = connection.try_call(request)?;
        self.connection = Some(connection);
        Ok(response)
    }

    /// Repeats a request until its response has no error of [`REPEATED`]. `error` reads the error.
    fn call(&mut self, request: &[u8], error: impl Fn(&[u8]) -> i16) -> Result<Vec<u8>, String> {
        let (start, mut last) = (Instant::now(), String::new());
        while start.elapsed() < LIMIT {
            match self.try_call(request) {
                Ok(response) => match error(&response) {
                    code if REPEATED.contains(&code) => last = format!("error {code}"),
                    _ => return Ok(response),
                },
                Err(failed) => last = failed.to_string(),
            }
            thread::sleep(PAUSE);
        }
        Err(format!(
            "no answer to API {} within {LIMIT:?}: {last}",
            i16::from_be_bytes([request[0], request[1]])
        ))
    }

    /// The offset for a timestamp of ListOffsets.
    fn offset_at(&mut self, place: &Place, timestamp: i64) -> Result<i64, String> {
        let request = raw::list_offset(place.key(), timestamp, false);
        let response = self.call(&request, |response| raw::found_offset(response).0)?;
        let (error, offset, _) = raw::found_offset(&response);
        expect_none("ListOffsets", place, error)?;
        Ok(offset)
    }

    /// The log's start, which is as promised.
    fn log_start(&mut self, place: &Place) -> Result<i64, String> {
        let start = self.offset_at(place, EARLIEST)?;
        place.check_start(start)?;
        Ok(start)
    }
}

fn expect_none(what: &str, place: &Place, error: i16) -> Result<(), String> {
    if error == 0 { Ok(()) } else { Err(format!("{what} of {}-{}: error {error}", place.topic, place.index)) }
}

/// Looks for the batch of an offset by its timestamp.
fn find_time(client: &mut Client, place: &Place, offset: i64) -> Result<(), String> {
    let Some((_, written_ms)) = place.ledger().at(offset) else { return Ok(()) };
    let expected = place.ledger().first_since(written_ms);
    let found = client.offset_at(place, written_ms)?;
    // The log may begin after the batch.
    if Some(found) == expected || expected < Some(place.ledger().promised_from(now_ms())) {
        return Ok(());
    }
    Err(format!("{}-{} at time {written_ms}: {found} instead of {expected:?}", place.topic, place.index))
}

/// The writer of a partition.
struct Writer<'a> {
    place: &'a Place,
    plan: StdRng,
    client: Client,
    producer: (i64, i16),
    /// Transactional id of the writer, if it has one.
    transaction: Option<String>,
    sequence: i32,
    number: u64,
}

impl<'a> Writer<'a> {
    /// Writes until the end.
    fn run(load: &TieredLoad, place: &'a Place, seed: u64) -> Result<(), String> {
        let mut client = Client::of(load.address);
        let transaction = place.is_transactional.then(|| format!("{}-{}", place.topic, place.index));
        if let Some(id) = &transaction {
            let request = raw::find_transaction_coordinator(id);
            let response = client.call(&request, raw::leading_error)?;
            expect_none("FindCoordinator", place, raw::leading_error(&response))?;
        }
        let request = raw::init_producer_id(transaction.as_deref());
        let response = client.call(&request, |response| raw::producer_id(response).0)?;
        let (error, producer) = raw::producer_id(&response);
        expect_none("InitProducerId", place, error)?;
        let plan = StdRng::seed_from_u64(seed);
        let mut own = Self { place, plan, client, producer, transaction, sequence: 0, number: 0 };
        while !load.writers_end.load(Ordering::Relaxed) {
            own.write()?;
        }
        Ok(())
    }

    /// Writes a batch, or a transaction.
    fn write(&mut self) -> Result<(), String> {
        let Some(id) = self.transaction.clone() else {
            self.append()?;
            self.place.ledger().settle(true, false);
            return Ok(());
        };
        let request = raw::add_to_transaction(&id, self.producer, self.place.key());
        let response = self.client.call(&request, raw::added_error)?;
        expect_none("AddPartitionsToTxn", self.place, raw::added_error(&response))?;
        for _ in 0..self.plan.random_range(1..=BATCHES_MAX) {
            self.append()?;
        }
        let is_committed = self.plan.random_bool(0.7);
        let request = raw::end_transaction(&id, self.producer, is_committed);
        let response = self.client.call(&request, raw::leading_error)?;
        expect_none("EndTxn", self.place, raw::leading_error(&response))?;
        self.place.ledger().settle(is_committed, true);
        Ok(())
    }

    fn append(&mut self) -> Result<(), String> {
        let count = self.plan.random_range(1..=RECORDS_MAX);
        let numbers = self.number..self.number + u64::from(count);
        let values: Vec<Vec<u8>> = numbers.map(|number| value(self.place.id, number)).collect();
        let ((id, epoch), written_ms) = (self.producer, now_ms());
        let mut batch = Batch { values, written_ms, ..Batch::of(&[]) };
        batch.producer = (id, epoch, self.sequence);
        if self.transaction.is_some() {
            batch.attributes = raw::TRANSACTIONAL;
        }
        let (place, encoded) = (self.place.key(), batch.encode());
        let request = match &self.transaction {
            Some(transaction) => raw::produce_in(transaction, place, &encoded),
            None => raw::produce_to(place, -1, &encoded),
        };
        let response = self.client.call(&request, raw::produce_error)?;
        let (error, base) = raw::produced(&response);
        expect_none("Produce", self.place, error)?;
        let bytes = encoded.len() as u64;
        self.place.ledger().add(Acknowledged { base, first: self.number, count, bytes, written_ms })?;
        self.number += u64::from(count);
        self.sequence += i32::try_from(count).expect("a few records");
        thread::sleep(PACE);
        Ok(())
    }
}

/// A way to read the records of a partition.
struct Replay<'a> {
    place: &'a Place,
    committed_only: bool,
    max_bytes: i32,
}

impl Replay<'_> {
    /// Reads a range of offsets, and compares it with the ledger. Records that retention removes
    /// meanwhile are left out.
    fn run(&self, client: &mut Client, range: Range<i64>) -> Result<(), String> {
        let (mut from, mut position, mut found) = (range.start, range.start, Vec::new());
        let mut progress = Instant::now();
        while position < range.end {
            if progress.elapsed() > LIMIT {
                let (topic, index) = self.place.key();
                return Err(format!(
                    "{topic}-{index}: no records from offset {position} on within {LIMIT:?}"
                ));
            }
            let mut request = FetchRequest::of(self.place.key(), position);
            (request.committed_only, request.max_bytes) = (self.committed_only, self.max_bytes);
            request.wait_ms = 100;
            let fetched =
                raw::fetched(&client.call(&request.encode(), |response| raw::fetched(response).error)?);
            if fetched.error == OUT_OF_RANGE {
                let start = client.log_start(self.place)?;
                self.place.compare(&(from..position), &found, self.committed_only)?;
                from = position.max(start);
                position = from;
                found.clear();
                continue;
            }
            expect_none("Fetch", self.place, fetched.error)?;
            self.place.check_start(fetched.log_start)?;
            let next = self.take(&fetched, position, &mut found)?;
            if next > position {
                (position, progress) = (next, Instant::now());
            }
        }
        found.retain(|(offset, _)| *offset < range.end);
        self.place.compare(&(from..range.end), &found, self.committed_only)
    }

    /// Adds the records of a response from `position` on, as a consumer does; returns the next
    /// position.
    fn take(
        &self,
        fetched: &raw::Fetched,
        position: i64,
        found: &mut Vec<(i64, u64)>,
    ) -> Result<i64, String> {
        let (mut ends, mut next) = (BTreeSet::new(), position);
        for batch in replicas::parse(&fetched.records) {
            let (producer, _) = batch.producer();
            // A transaction that has begun at `first`, and has not ended before the batch.
            let is_open = |first: i64| {
                first <= batch.base && ends.range((producer, first)..(producer, batch.base)).next().is_none()
            };
            let is_aborted = self.committed_only
                && batch.is_transactional()
                && fetched.aborted.iter().any(|(id, first)| *id == producer && is_open(*first));
            if batch.marker().is_some() {
                ends.insert((producer, batch.base));
            } else if !is_aborted {
                self.take_batch(&batch, position, found)?;
            }
            next = next.max(batch.last + 1);
        }
        Ok(next)
    }

    fn take_batch(
        &self,
        batch: &replicas::Batch,
        position: i64,
        found: &mut Vec<(i64, u64)>,
    ) -> Result<(), String> {
        for (offset, value) in (batch.base..).zip(batch.values()) {
            let number = number_of(self.place.id, value).ok_or_else(|| {
                format!("{}-{}, offset {offset}: a changed value", self.place.topic, self.place.index)
            })?;
            if offset >= position {
                found.push((offset, number));
            }
        }
        Ok(())
    }
}
