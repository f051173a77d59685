//! `lab copy`: copies a file to a file by each method of the kernel, and measures the duration of
//! each system call.
//!
//! The methods are bare loops of system calls. The product's copy ([`levada_io::copy`]) does not
//! use blocks of 4 KiB, and here the question is the cost of a call. The source is in the page
//! cache. The destination is a new file each time and never reaches the device.

use std::fs::File;
use std::io::Read;

use crate::error::LabError;
use crate::experiments::transfer::bytes;
use crate::harness::bench::Bench;
use crate::harness::payload;
use crate::machine::cpu::Stopwatch;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

mod way;

use way::{CopyMethod, Failed};

/// The experiment `lab copy` with its files.
#[derive(Debug)]
pub struct Copies<'a> {
    bench: &'a Bench,
    source: File,
    len: u64,
    checksum: u64,
}

impl<'a> Copies<'a> {
    /// Creates the source.
    ///
    /// # Errors
    /// The device has too little space.
    pub fn new(bench: &'a Bench) -> Result<Self, LabError> {
        let len = bench.scale().choose(1 << 20, 32 << 20, 128 << 20, 1 << 30);
        bench.reserve(2 * len)?;
        let (source, checksum) = bench.filled_file(len)?;
        Ok(Copies { bench, source, len, checksum })
    }

    /// Compares the length and the checksum of a copy with those of the source.
    fn check(&self, copy: &File) -> Result<Verdict, LabError> {
        let failed = || LabError::step::<std::io::Error>("cannot read the copy");
        let (mut digest, mut block, mut copy) = (payload::digest(), vec![0; 1 << 20], copy);
        std::io::Seek::rewind(&mut copy).map_err(failed())?;
        let mut count = 0;
        loop {
            match copy.read(&mut block).map_err(failed())? {
                0 => break,
                got => {
                    digest.update(&block[..got]);
                    count += got as u64;
                }
            }
        }
        Ok(Verdict::of_bytes((self.len, self.checksum), (count, digest.finalize())))
    }
}

impl Experiment for Copies<'_> {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn shows(&self) -> String {
        format!("Cost of copying a file of {} MiB, and number of system calls.", self.len >> 20)
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::less("cpu_s_per_gb", "CPU", "s/GB"),
            Metric::more("gb_per_s", "rate", "GB/s"),
            Metric::neither("calls_per_gb", "calls", "/GB"),
        ]
    }

    fn cases(&self) -> Vec<Case> {
        let case = |way: &CopyMethod| Case::new("hot", way.name()).with("step_bytes", way.step_bytes());
        CopyMethod::ALL.iter().map(case).collect()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        let Some(way) = CopyMethod::ALL.into_iter().find(|way| way.name() == case.name) else {
            return Ok(Outcome::Skipped("no such method".to_owned()));
        };
        let copy = self.bench.file()?;
        let watch = Stopwatch::start();
        let clocks = match way.copy(&self.source, &copy, self.len) {
            Ok(clocks) => clocks,
            Err(Failed::NotHere(why)) => return Ok(Outcome::Skipped(why)),
            Err(Failed::Error(cause)) => {
                return Err(LabError::Step { what: format!("cannot copy by {}", way.name()), cause });
            }
        };
        let elapsed = watch.elapsed();
        if pass == Pass::Integrity {
            return Ok(Outcome::Checked(self.check(&copy)?));
        }
        let gb = self.len as f64 / 1e9;
        let calls: u64 = clocks.iter().map(|clock| clock.calls).sum();
        let mut metrics: Metrics = [
            ("cpu_s_per_gb", elapsed.cpu.as_secs_f64() / gb),
            ("gb_per_s", gb / elapsed.wall.as_secs_f64()),
            ("calls_per_gb", calls as f64 / gb),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        clocks.iter().for_each(|clock| clock.report(&mut metrics));
        Ok(Outcome::Measured(metrics))
    }
}

/// Name of a case, with its size.
fn named(what: &str, step_bytes: usize) -> String {
    format!("{what} {}", bytes(step_bytes))
}

#[cfg(test)]
mod tests;
