//! Experiments that start programs, listed in the order in which they run.

use std::time::Duration;

use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::method::experiment::Experiment;
use crate::method::limits::{Limits, Scale};

/// Makes an experiment on a bench, with the programs that there are.
pub type Begin<S> = for<'b> fn(&'b Bench, &S) -> Result<Box<dyn Experiment + 'b>, LabError>;

/// An experiment to be begun when its turn comes: beginning starts programs.
#[derive(Debug)]
pub struct Offer<S> {
    /// One word, as on the command line.
    pub name: &'static str,
    /// Begins it.
    pub begin: Begin<S>,
    /// Number of rounds that make sense.
    pub limits: fn(Scale) -> Limits,
}

/// Of experiments whose runs take seconds.
pub(crate) fn few(scale: Scale) -> Limits {
    Limits {
        rounds: scale.choose(1, 3, 11, 21),
        least_rounds: scale.choose(1, 1, 5, 11),
        time: Duration::from_secs(scale.choose(0, 10, 120, 900)),
    }
}

/// Of experiments whose runs take half a minute and are alike.
pub(crate) fn fewest(scale: Scale) -> Limits {
    Limits::exactly(scale.choose(1, 1, 3, 5))
}
