//! Experiments that start programs, listed in execution order.

use std::time::Duration;

use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::method::experiment::Experiment;
use crate::method::limits::{Limits, Scale};

/// Creates an experiment on a bench with the available programs.
pub type Begin<S> = for<'b> fn(&'b Bench, &S) -> Result<Box<dyn Experiment + 'b>, LabError>;

/// An experiment that the laboratory creates when its turn comes, because that starts programs.
#[derive(Debug)]
pub struct Offer<S> {
    /// Name on the command line: one word.
    pub name: &'static str,
    /// Creates the experiment.
    pub begin: Begin<S>,
    /// Default limits of the rounds.
    pub limits: fn(Scale) -> Limits,
}

/// Limits of experiments whose runs take seconds.
pub(crate) fn few(scale: Scale) -> Limits {
    Limits {
        rounds: scale.choose(1, 3, 11, 21),
        least_rounds: scale.choose(1, 1, 5, 11),
        time: Duration::from_secs(scale.choose(0, 10, 120, 900)),
    }
}

/// Limits of experiments whose runs take half a minute and vary little.
pub(crate) fn fewest(scale: Scale) -> Limits {
    Limits::exactly(scale.choose(1, 1, 3, 5))
}
