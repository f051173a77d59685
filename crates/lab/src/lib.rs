//! The laboratory measures the cost of each method to move bytes on the machine on which it runs.
//!
//! An [`Experiment`] describes itself, lists its [`Case`]s and runs one of them once. The
//! [method](Method) does the rest in the same way for all experiments. The cases take turns in
//! random order, round after round. One more round, which is not timed, checks every byte. Each
//! measurement goes into a [record], line by line, before any computation. [`summary`] computes
//! medians with their confidence from a record alone.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use levada_lab::{Bench, Limits, Method, Scale, record::Recorder, transfer::Transfers};
//!
//! let bench = Bench::new(&std::env::temp_dir(), Scale::Quick)?;
//! let mut recorder = Recorder::in_memory();
//! let mut method = Method::new(Limits::of(Scale::Quick), 42);
//! recorder.run(&bench, method.limits(), method.seed())?;
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
//! Implement [`Experiment`]. [`Experiment::run`] measures the cost of one run of one case, with
//! [`cpu::Stopwatch`] for this process and [`cpu::of_process`] for another. Files come from the
//! [`Bench`], which removes them even after an error. Order, repetition, statistics and printing
//! belong to the method. The first case of a group is the reference of the group.
//!
//! # Forbidden
//!
//! The laboratory must not link the broker, because a measured broker is a separate process. A test
//! must not assert a time: the tests run each experiment at [`Scale::Tiny`] for its integrity
//! check.
//!
//! # Rooms
//!
//! | room | holds | uses |
//! |---|---|---|
//! | `machine` | processors, noise, flame graphs, the environment | |
//! | `method` | the parts of an experiment: cases, metrics, limits, statistics | |
//! | `harness` | workbench, payload, other processes, load, bare loops, TLS | `machine`, `method` |
//! | `record` | JSON Lines, typed; summaries and comparisons | the above |
//! | `runner` | alternation, rounds, the round that checks | the above |
//! | `experiments` | the measurements; those on brokers with a separate harness | the above |
//! | `report` | the page of a record | `record` |
//! | `published` | claims, goals and the page about a splice that copies, checked against records | `record`, `report` |
//! | `command` | `levada lab`: sessions, tables, programs side by side | the above |

pub mod command;
pub mod record;
pub mod report;

mod error;
mod experiments;
mod harness;
mod machine;
mod method;
mod published;
mod runner;

pub use error::LabError;
pub use experiments::offer::{Begin, Offer};
pub use experiments::{broker, calibrate, copy, files, loops, read, receive, search, send, transfer};
pub use harness::bench::Bench;
pub use harness::peer;
pub use machine::interrupt::Interrupt;
pub use machine::{cpu, environment, flame, noise};
pub use method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
pub use method::limits::{Limits, Scale};
pub use method::statistics;
pub use published::{claims, copying, goals};
pub use record::{compare, summary};
pub use runner::Method;

#[cfg(test)]
mod tests;
