//! The runner, which is the same for every experiment. One round that is not timed checks every
//! byte. Then the cases take turns in random order, round after round, until there are enough
//! rounds or the time is over.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::error::LabError;
use crate::machine::flame;
use crate::machine::interrupt::Interrupt;
use crate::machine::noise::Watch;
use crate::method::experiment::{Case, Experiment, Metrics, Outcome, Pass};
use crate::method::limits::Limits;
use crate::method::metric::{Metric, Verdict};
use crate::method::statistics::Interval;
use crate::record::{Ended, Flame, Line, Recorder, Sample};

/// Runs experiments: limits, order of the cases, display and options.
#[derive(Debug)]
pub struct Method {
    limits: Limits,
    seed: u64,
    random: StdRng,
    bar: ProgressBar,
    only: Option<String>,
    flames: bool,
}

impl Method {
    /// Creates a method with limits and with the seed of the order, without a progress bar.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            seed,
            random: StdRng::seed_from_u64(seed),
            bar: ProgressBar::hidden(),
            only: None,
            flames: false,
        }
    }

    /// Shows progress and current estimates on stderr if that is a terminal.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {bar:20} {pos}/{len}, {eta} left {wide_msg}");
        self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self
    }

    /// Runs only cases whose group and name contain this text.
    #[must_use]
    pub fn only(mut self, text: Option<String>) -> Self {
        self.only = text;
        self
    }

    /// Changes the limits of the following experiments.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes a profile of each case after the rounds.
    #[must_use]
    pub fn flames(mut self, wanted: bool) -> Self {
        self.flames = wanted;
        self
    }

    /// Limits of an experiment.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Seed of the order of cases.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs one experiment and records it. After Ctrl-C, closes the record and returns
    /// [`LabError::Interrupted`].
    ///
    /// # Errors
    /// The error of the experiment or of the record.
    pub fn run(&mut self, experiment: &mut dyn Experiment, recorder: &mut Recorder) -> Result<(), LabError> {
        let wanted = |case: &Case| {
            self.only.as_ref().is_none_or(|text| format!("{} {}", case.group, case.name).contains(text))
        };
        let cases: Vec<Case> = experiment.cases().into_iter().filter(wanted).collect();
        recorder.announce(experiment, &cases)?;
        let (start, mut watch) = (Instant::now(), Watch::start());
        self.bar.set_prefix(experiment.name());
        self.bar.set_length(cases.len() as u64 * u64::from(self.limits.rounds + 1));
        let mut session = Session { experiment, recorder, cases, estimates: Vec::new() };
        let rounds = self.rounds(&mut session, &mut watch).and_then(|()| self.sampled(&mut session));
        session.caveats()?;
        self.bar.reset();
        let interrupted = matches!(rounds, Err(LabError::Interrupted));
        let name = session.experiment.name().to_owned();
        let whole = session.whole_rounds(&name);
        recorder.add(Line::Ended(Ended {
            experiment: name,
            rounds: whole,
            elapsed_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            interrupted,
            noise: watch.noise(),
        }))?;
        rounds
    }

    /// Removes the progress bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn rounds(&mut self, session: &mut Session<'_>, watch: &mut Watch) -> Result<(), LabError> {
        // The check comes first: it also warms up, and a case that loses bytes is not worth timing.
        let start = Instant::now();
        self.round(session, 0, Pass::Integrity)?;
        for round in 1..=self.limits.rounds {
            if round > self.limits.least_rounds && start.elapsed() > self.limits.time {
                break;
            }
            self.round(session, round, Pass::Timed)?;
            watch.look();
        }
        Ok(())
    }

    fn sampled(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let cases = if self.flames { session.cases.clone() } else { Vec::new() };
        for case in &cases {
            self.bar.set_message(format!("{} {}: profile", case.group, case.name));
            session.flame(case)?;
        }
        Ok(())
    }

    fn round(&mut self, session: &mut Session<'_>, round: u32, pass: Pass) -> Result<(), LabError> {
        let mut order = session.cases.clone();
        order.shuffle(&mut self.random);
        for case in &order {
            if Interrupt::asked() {
                return Err(LabError::Interrupted);
            }
            self.bar.set_message(session.estimate(case));
            session.once(case, round, pass)?;
            self.bar.inc(1);
        }
        Ok(())
    }
}

/// Time for which a case runs repeatedly for its profile.
const SAMPLED: Duration = Duration::from_secs(1);

/// One experiment in progress.
struct Session<'a> {
    experiment: &'a mut dyn Experiment,
    recorder: &'a mut Recorder,
    /// Cases that this machine can run.
    cases: Vec<Case>,
    /// Values of the first metric, by case.
    estimates: Vec<(Case, Vec<f64>)>,
}

impl Session<'_> {
    fn once(&mut self, case: &Case, round: u32, pass: Pass) -> Result<(), LabError> {
        match self.experiment.run(case, pass)? {
            Outcome::Measured(metrics) => {
                self.remember(case, &metrics);
                self.sample(case, round, metrics, None)
            }
            Outcome::Checked(verdict) => {
                if !verdict.sound {
                    // A case with wrong bytes does other work than its name says, so it gets no
                    // figures and no rank.
                    self.cases.retain(|other| other != case);
                }
                self.sample(case, round, Metrics::new(), Some(verdict))
            }
            Outcome::Skipped(why) => {
                self.cases.retain(|other| other != case);
                self.recorder.note(self.experiment.name(), Some(case), format!("left out: {why}"))
            }
        }
    }

    /// Records the cases whose work does not match their names.
    fn caveats(&mut self) -> Result<(), LabError> {
        self.cases.iter().try_for_each(|case| match self.experiment.caveat(case) {
            Some(text) => self.recorder.caveat(self.experiment.name(), case, text),
            None => Ok(()),
        })
    }

    /// Runs a case for a second while the profiler samples its stacks.
    fn flame(&mut self, case: &Case) -> Result<(), LabError> {
        let with = match self.experiment.worker(case) {
            None => flame::start()?,
            Some(pid) => match flame::start_on(pid)? {
                Some(with) => with,
                None => {
                    let text =
                        "no flame graph: perf is not available or may not sample another process".to_owned();
                    return self.recorder.note(self.experiment.name(), Some(case), text);
                }
            },
        };
        let start = Instant::now();
        let mut runs = Ok(());
        while runs.is_ok() && start.elapsed() < SAMPLED {
            runs = if Interrupt::asked() {
                Err(LabError::Interrupted)
            } else {
                self.experiment.run(case, Pass::Timed).map(drop)
            };
        }
        let stacks = flame::finish()?;
        runs?;
        let unseen = if with.starts_with("perf") && !flame::has_kernel(&stacks) {
            "; without the kernel, which may use most of the time: perf has no permission"
        } else {
            ""
        };
        self.recorder.add(Line::Flame(Flame {
            experiment: self.experiment.name().to_owned(),
            group: case.group.clone(),
            case: case.name.clone(),
            with: format!("{with}{unseen}"),
            stacks,
        }))
    }

    fn sample(
        &mut self,
        case: &Case,
        round: u32,
        metrics: Metrics,
        verdict: Option<Verdict>,
    ) -> Result<(), LabError> {
        if let Some(verdict) = verdict.as_ref().filter(|verdict| !verdict.sound) {
            let text = format!("not sound: {}", verdict.what);
            self.recorder.note(self.experiment.name(), Some(case), text)?;
        }
        self.recorder.add(Line::Sample(Sample {
            experiment: self.experiment.name().to_owned(),
            group: case.group.clone(),
            case: case.name.clone(),
            params: case.params.clone(),
            round,
            metrics,
            verdict,
        }))
    }

    fn remember(&mut self, case: &Case, metrics: &Metrics) {
        let Some(value) = self.metric().and_then(|metric| metrics.get(&metric.name).copied()) else { return };
        match self.estimates.iter_mut().find(|(other, _)| other == case) {
            Some((_, values)) => values.push(value),
            None => self.estimates.push((case.clone(), vec![value])),
        }
    }

    fn metric(&self) -> Option<Metric> {
        self.experiment.metrics().into_iter().next()
    }

    /// Intermediate result of a case, for display.
    fn estimate(&self, case: &Case) -> String {
        let name = format!("{} {}", case.group, case.name);
        let values = self.estimates.iter().find(|(other, _)| other == case).map(|(_, values)| values);
        let interval = values.and_then(|values| Interval::of(values.iter().copied()));
        match (interval, self.metric()) {
            (Some(interval), Some(metric)) => {
                let spread = interval.spread().map(|spread| format!(" ± {:.0} %", spread * 100.0));
                format!("{name}: {:.4} {}{}", interval.median, metric.unit, spread.unwrap_or_default())
            }
            _ => name,
        }
    }

    /// Number of rounds in which all remaining cases ran.
    fn whole_rounds(&self, experiment: &str) -> u32 {
        let of_case = |case: &Case| {
            let own = self.recorder.lines().iter().filter(|line| {
                matches!(line, Line::Sample(sample) if sample.round > 0
                    && (sample.experiment.as_str(), &sample.group, &sample.case) == (experiment, &case.group, &case.name))
            });
            u32::try_from(own.count()).unwrap_or(u32::MAX)
        };
        self.cases.iter().map(of_case).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
