//! `lab receive`: moves batches from a socket to the end of a file, as a broker receives them:
//! through a buffer, by `splice`, or into a mapping of the file.
//!
//! A broker must check a batch before others may read it, and must change its first bytes. With a
//! buffer it does both in place. A spliced batch is in the file before the check: the receiver
//! reads it back, and would truncate the file if the check fails. The experiment also measures each
//! method without the check, as a lower bound for a faster check. For the same reason the method
//! with a mapping has no check.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use levada_base::batch;
use levada_io::probe::Support;
use rustix::net::sockopt;

use crate::error::LabError;
use crate::experiments::broker::harness::frames;
use crate::harness::bench::Bench;
use crate::machine::cpu::{self, Stopwatch};
use crate::machine::environment::CONGESTION;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

mod way;

use way::{ReceiveMethod, Taker};

const SIZES: [(&str, usize); 4] = [
    ("batches of 16 KiB", 16 << 10),
    ("batches of 64 KiB", 64 << 10),
    ("batches of 256 KiB", 256 << 10),
    ("batches of 1 MiB", 1 << 20),
];

/// The experiment `lab receive` with its files.
#[derive(Debug)]
pub struct Receives<'a> {
    bench: &'a Bench,
    bytes: u64,
}

/// Result of one run.
struct Received {
    file: File,
    batches: usize,
    cpu: Duration,
    wall: Duration,
    calls: u64,
}

impl<'a> Receives<'a> {
    /// Creates the experiment on a bench.
    ///
    /// # Errors
    /// The device has too little space.
    pub fn new(bench: &'a Bench) -> Result<Self, LabError> {
        let bytes = bench.scale().choose(2 << 20, 16 << 20, 256 << 20, 1 << 30);
        bench.reserve(bytes)?;
        Ok(Receives { bench, bytes })
    }

    /// Receives copies of `sent`, each after its length.
    fn receive(&self, way: ReceiveMethod, sent: &Bytes) -> Result<Received, LabError> {
        let step = LabError::step::<std::io::Error>;
        let batches = usize::try_from(self.bytes / sent.len() as u64).unwrap_or(usize::MAX).max(1);
        let file = self.bench.file()?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(step("cannot listen on a free port"))?;
        let address = listener.local_addr().map_err(step("cannot read the address of a listener"))?;
        let stream = TcpStream::connect(address).map_err(step("cannot connect"))?;
        let (sender, _) = listener.accept().map_err(step("cannot accept"))?;
        for end in [&stream, &sender] {
            // If the kernel refuses, the record names the actual congestion control.
            let _ = sockopt::set_tcp_congestion(end, CONGESTION);
        }
        let (cpu, wall, calls) = std::thread::scope(|scope| {
            let places = self.bench.places();
            let sending = scope.spawn(move || {
                cpu::pin(places.receiver());
                way::send(&sender, sent, batches)
            });
            let _pinned = places.pin_sender();
            let mut taker = Taker::new(way, &stream, &file).map_err(step("cannot prepare the receiver"))?;
            let (before, watch) = (cpu::of_this_thread(), Stopwatch::start());
            let taken = (0..batches).try_for_each(|number| taker.take(number as i64));
            let (cpu, wall) = (cpu::of_this_thread().saturating_sub(before), watch.elapsed().wall);
            let calls = taker.calls();
            let finished = taker.finish();
            // After an error, the sender must not wait for a reader.
            let _ = stream.shutdown(std::net::Shutdown::Both);
            let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            taken.and(finished).map_err(step(way.name()))?;
            sent.map_err(step("cannot send"))?;
            Ok((cpu, wall, calls))
        })?;
        Ok(Received { file, batches, cpu, wall, calls })
    }
}

impl Received {
    fn metrics(&self, batch_len: usize) -> Metrics {
        let gb = (self.batches * batch_len) as f64 / 1e9;
        [
            ("cpu_s_per_gb", self.cpu.as_secs_f64() / gb),
            ("gb_per_s", gb / self.wall.as_secs_f64()),
            ("calls_per_gb", self.calls as f64 / gb),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Checks that the file contains every batch, undamaged and with its offset.
    fn check(&self, batch_len: usize) -> Result<Verdict, LabError> {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; batch_len];
        for number in 0..self.batches {
            let position = (number * batch_len) as u64;
            self.file
                .read_exact_at(&mut bytes, position)
                .map_err(LabError::step("cannot read the received file"))?;
            let found = batch::check_stored(&bytes).map(|view| (view.base_offset(), view.leader_epoch()));
            if !matches!(found, Ok((offset, way::EPOCH)) if offset == number as i64) {
                return Ok(Verdict { sound: false, what: format!("batch {number}: {found:?}") });
            }
        }
        let len = self
            .file
            .metadata()
            .map_err(LabError::step("cannot read the length of the received file"))?
            .len();
        let sound = len == (self.batches * batch_len) as u64;
        Ok(Verdict { sound, what: format!("{} batches, {len} bytes", self.batches) })
    }
}

impl Experiment for Receives<'_> {
    fn name(&self) -> &'static str {
        "receive"
    }

    fn shows(&self) -> String {
        format!(
            "Cost of moving {} MiB of batches from a socket to the end of a file, through a buffer, by splice, or into a mapping.",
            self.bytes >> 20
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_s_per_gb", "receiver CPU", "s/GB"),
            Metric::more("gb_per_s", "rate", "GB/s"),
            Metric::neither("calls_per_gb", "calls", "/GB"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let case = |label: &str, bytes: usize, way: ReceiveMethod| {
            Case::new(label, way.name()).with("batch_bytes", bytes)
        };
        SIZES
            .iter()
            .flat_map(|(label, bytes)| ReceiveMethod::ALL.iter().map(move |way| case(label, *bytes, *way)))
            .collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let size = SIZES.iter().find(|(label, _)| *label == case.group);
        let way = ReceiveMethod::ALL.into_iter().find(|way| way.name() == case.name);
        let Some(((_, len), way)) = size.zip(way) else {
            return Ok(Outcome::Skipped("no such method".to_owned()));
        };
        if let (true, Support::Absent { why, remedy }) = (way.splices(), &self.bench.caps().splice) {
            return Ok(Outcome::Skipped(format!("{why}; {remedy}")));
        }
        let (batch, _) = frames::batch(*len, 1024, 1)?;
        let sent = batch.freeze();
        let received = self.receive(way, &sent)?;
        Ok(match pass {
            Pass::Timed => Outcome::Measured(received.metrics(sent.len())),
            Pass::Integrity => Outcome::Checked(received.check(sent.len())?),
        })
    }
}

#[cfg(test)]
mod tests;
