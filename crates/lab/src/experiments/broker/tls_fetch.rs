//! Cost of fetches over TLS with encryption in the broker: one connection, TLS 1.3 with
//! AES-128-GCM. For comparison, rustls alone encrypts the same bytes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_client::{Connection, ConnectionOptions};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::floor::{self, Fetches};
use crate::experiments::broker::harness::frames::{self, TopicPartition, Wanted};
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::identity::Identity;
use crate::harness::process::Spent;
use crate::method::experiment::{Case, Experiment, Outcome, Pass};
use crate::record::{Metric, Verdict};

const SIZES: [(&str, i32); 2] = [("50 MiB", 50 << 20), ("1 MiB", 1 << 20)];

const BATCH_LEN: usize = 16 << 10;

/// Case with only the library that Levada uses for encryption.
const ALONE: &str = "rustls alone";

/// Bytes that the bare loop reads and encrypts at a time.
const CHUNK: usize = 256 << 10;

/// Limit for each wait and each write.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The experiment, with its brokers.
#[derive(Debug)]
pub struct TlsFetch<'b> {
    bench: &'b Bench,
    subjects: Vec<(Node, SocketAddr, Filled)>,
    /// A segment of Levada, for the bare loop.
    segment: File,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// Directory of the brokers' certificate, which is removed with the experiment.
    _folder: TempDir,
}

impl<'b> TlsFetch<'b> {
    /// Starts the brokers and fills a topic.
    ///
    /// # Errors
    /// A broker does not start or refuses a request, or the device has too little space.
    pub fn new(bench: &'b Bench, systems: &Systems) -> Result<Self, LabError> {
        let bytes = bench.scale().choose(1 << 20, 50 << 20, 100 << 20, 200 << 20);
        bench.reserve(bytes * systems.all().len() as u64)?;
        let folder = tempfile::Builder::new().prefix("tls").tempdir_in(bench.dir());
        let folder = folder.map_err(LabError::file("cannot make a directory in", bench.dir()))?;
        let Identity { path: identity, client, server } =
            Identity::create(&folder.path().join("broker.pem"))?;
        let begin = |system| {
            let (mut node, address) = Node::new(bench, systems, system)?.sealed(&identity)?;
            node.start(bench)?;
            topic::create(&node, "fetch", 1, &[])?;
            let place = TopicPartition { topic: "fetch".to_owned(), partition: 0 };
            let filled = topic::fill(&node, place, BATCH_LEN, bytes)?;
            // Sync now, so that no writeback runs during a measurement.
            topic::sync(&node, &filled.place)?;
            Ok((node, address, filled))
        };
        let subjects: Vec<_> = systems.all().into_iter().map(begin).collect::<Result<_, LabError>>()?;
        let levada = subjects.iter().find(|(node, ..)| node.system() == System::Levada);
        let path = match levada {
            Some((node, _, filled)) => topic::segments(node, &filled.place)?.into_iter().next(),
            None => None,
        };
        let path = path.ok_or_else(|| {
            LabError::step("cannot find a segment of Levada")(io::Error::from(io::ErrorKind::NotFound))
        })?;
        let segment = File::open(&path).map_err(LabError::file("cannot open", path))?;
        Ok(TlsFetch { bench, subjects, segment, client, server, _folder: folder })
    }

    /// Runs `work` with a connection to the case's subject. Returns the processor time of the
    /// subject.
    fn beside(
        &self,
        case: &Case,
        max_bytes: i32,
        mut work: impl FnMut(&mut Connection, &Filled) -> Result<(), LabError>,
    ) -> Result<Duration, LabError> {
        match self.subjects.iter().find(|(node, ..)| node.system().label() == case.name) {
            Some((node, address, filled)) => {
                let mut client = self.connect(*address)?;
                // Complete the handshake, which the first request triggers, before the measurement.
                let first = Wanted { offset: 0, max_bytes: 1, max_wait_ms: 0 };
                ask(&mut client, &frames::fetch(&filled.place, first)?)?;
                let before = Spent::of(node.pid());
                work(&mut client, filled)?;
                Ok(Spent::since(node.pid(), &before))
            }
            None => {
                let filled = &self.subjects[0].2;
                let fetches = Fetches { filled, file: &self.segment, max_bytes };
                let serve = |stream: &TcpStream| self.alone(stream, &fetches);
                floor::beside(self.bench, serve, |address| work(&mut self.connect(address)?, filled))
            }
        }
    }

    fn connect(&self, address: SocketAddr) -> Result<Connection, LabError> {
        let options = ConnectionOptions {
            timeout: TIMEOUT,
            max_frame_bytes: 128 << 20,
            ..ConnectionOptions::default()
        };
        let config = self.client.clone();
        let connected = Connection::connect_over_unnegotiated(&address.to_string(), &options, |_, socket| {
            let name = "localhost".try_into().map_err(io::Error::other)?;
            let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
            Ok(Box::new(StreamOwned::new(tls, socket)))
        });
        connected.map_err(|error| LabError::step("cannot connect over TLS")(io::Error::other(error)))
    }

    /// Bare loop that encrypts the data of each fetch as it reads the data.
    fn alone(&self, mut stream: &TcpStream, fetches: &Fetches<'_>) -> io::Result<()> {
        let mut tls = ServerConnection::new(self.server.clone()).map_err(io::Error::other)?;
        tls.set_buffer_limit(None);
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        let wanted = Wanted { offset: 0, max_bytes: fetches.max_bytes, max_wait_ms: 0 };
        let request = frames::fetch(&fetches.filled.place, wanted).map_err(io::Error::other)?;
        let (mut request, mut chunk) = (vec![0; request.len()], vec![0; CHUNK]);
        let mut at = 0;
        loop {
            rustls::Stream::new(&mut tls, &mut stream).read_exact(&mut request)?;
            let count = fetches.batches(at);
            let len = count * fetches.filled.batch_len;
            tls.writer().write_all(&fetches.header(len)?)?;
            let (mut from, end) = (at * fetches.filled.batch_len, at * fetches.filled.batch_len + len);
            while from < end {
                let part = &mut chunk[..CHUNK.min(end - from)];
                fetches.file.read_exact_at(part, from as u64)?;
                tls.writer().write_all(part)?;
                while tls.wants_write() {
                    tls.write_tls(&mut stream)?;
                }
                from += part.len();
            }
            at = (at + count) % fetches.filled.batches;
        }
    }
}

fn ask(client: &mut Connection, frame: &[u8]) -> Result<Bytes, LabError> {
    let answer = client.send(frame).and_then(|()| client.receive());
    answer.map_err(|error| LabError::step("no response over TLS")(io::Error::other(error)))
}

/// Reads the topic once. Returns the bytes of the records.
fn read(client: &mut Connection, filled: &Filled, max_bytes: i32) -> Result<u64, LabError> {
    let mut batch = 0;
    while batch < filled.batches {
        let wanted = Wanted { offset: filled.offset(batch), max_bytes, max_wait_ms: 0 };
        let response = ask(client, &frames::fetch(&filled.place, wanted)?)?;
        let (len, _) = frames::fetched(&response, &filled.place)?;
        if len < filled.batch_len {
            let what = format!("no batch at number {batch}");
            return Err(LabError::step("a fetch failed")(io::Error::other(what)));
        }
        batch += len / filled.batch_len;
    }
    Ok((batch * filled.batch_len) as u64)
}

impl Experiment for TlsFetch<'_> {
    fn name(&self) -> &'static str {
        "broker-tls-fetch"
    }

    fn shows(&self) -> String {
        format!(
            "cost of a broker for records from the page cache over TLS 1.3 with AES-128-GCM, encrypted in its own process, to one connection \
             (batches of {BATCH_LEN} bytes), compared with a loop of read, rustls and send"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        super::moving()
    }

    fn cases(&self) -> Vec<Case> {
        let names = self.subjects.iter().map(|(node, ..)| node.system().label()).chain([ALONE]);
        super::by_size(&SIZES, names, "fetch_bytes")
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some((_, max_bytes)) = SIZES.iter().copied().find(|(label, _)| *label == case.group) else {
            return Ok(Outcome::Skipped("no such size".to_owned()));
        };
        if pass == Pass::Integrity {
            let mut verdict = None;
            self.beside(case, max_bytes, |client, filled| {
                verdict = Some(topic::verify_by(filled, 0, max_bytes, |frame| ask(client, frame))?);
                Ok(())
            })?;
            let nothing = || Verdict { sound: false, what: "no batch was read".to_owned() };
            return Ok(Outcome::Checked(verdict.unwrap_or_else(nothing)));
        }
        let pinned = self.bench.places().pin_receiver();
        let (start, mut bytes) = (Instant::now(), 0);
        let cpu = self.beside(case, max_bytes, |client, filled| {
            bytes = read(client, filled, max_bytes)?;
            Ok(())
        })?;
        drop(pinned);
        Ok(Outcome::Measured(super::moved(bytes, cpu, start.elapsed())))
    }
}
