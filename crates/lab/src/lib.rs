//! The laboratory: what each way of moving bytes costs on the machine that it runs on.
//!
//! An [`Experiment`] says what it shows, lists its [`Case`]s and runs one of them once. The [method](Method) does the rest, the same for all:
//! the cases take turns in random order, round after round; one more round, not timed, checks every byte; whatever was seen goes into a
//! [record], line by line, before anybody computes with it; [`summary`] makes medians with their confidence from a record and
//! from nothing else.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use levada_lab::{Bench, Limits, Method, Scale, record::Recorder, transfer::Transfers};
//!
//! let bench = Bench::new(&std::env::temp_dir(), Scale::Quick)?;
//! let mut recorder = Recorder::in_memory();
//! let mut method = Method::new(Limits::of(Scale::Quick), 42);
//! recorder.run(&bench, &method)?;
//! method.run(&mut Transfers::new(&bench)?, &mut recorder)?;
//! for experiment in levada_lab::summary::of(recorder.lines()) {
//!     println!("{}: {}", experiment.name, experiment.shows);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # To write an experiment
//!
//! Implement [`Experiment`]. Measure in [`Experiment::run`] what one run of one case costs, with [`cpu::Stopwatch`] for this process and
//! [`cpu::of_process`] for another; take files from the [`Bench`], which removes them whatever happens; leave order, repetition, statistics and
//! printing alone. The first case of a group is what the others of the group are compared with.
//!
//! # What it must never do
//!
//! Link the broker: a broker that is measured is a process of its own. Assert a time in a test: the tests run each experiment at
//! [`Scale::Tiny`] for its integrity check.

pub mod broker;
pub mod calibrate;
pub mod claims;
pub mod compare;
pub mod copy;
pub mod cpu;
pub mod environment;
pub mod flame;
pub mod goals;
pub mod memory;
pub mod noise;
pub mod peer;
pub mod read;
pub mod receive;
pub mod record;
pub mod report;
pub mod search;
pub mod send;
pub mod statistics;
pub mod summary;
pub mod transfer;

mod bench;
mod error;
mod experiment;
mod interrupt;
mod loan;
mod method;
mod payload;
mod seal;
mod times;

pub use bench::{Bench, Scale};
pub use error::LabError;
pub use experiment::{Case, Experiment, Metrics, Outcome, Pass};
pub use interrupt::Interrupt;
pub use method::{Limits, Method};

#[cfg(test)]
mod tests;
