//! The runner, the same for every experiment: cases take turns in random order, round after round,
//! until there are enough rounds or the time is up; then one round that is not timed checks every
//! byte.

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

/// Options of experiments.
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
    /// Runs within limits, in an order drawn with the seed, without showing how far it is.
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

    /// Shows how far it is, and the current estimates, on stderr if that is a terminal.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {bar:20} {pos}/{len} {wide_msg}");
        self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self
    }

    /// Leaves out cases whose group and name do not have this text in them.
    #[must_use]
    pub fn only(mut self, text: Option<String>) -> Self {
        self.only = text;
        self
    }

    /// Changes when an experiment is over, for those to come.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Looks, after the rounds, where each case spends its time.
    #[must_use]
    pub fn flames(mut self, wanted: bool) -> Self {
        self.flames = wanted;
        self
    }

    /// Time limit of an experiment.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Seed of the order.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs one experiment and records it. After Ctrl-C the record is closed before this returns
    /// [`LabError::Interrupted`].
    ///
    /// # Errors
    /// The experiment's, or the record's.
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

    /// Ends showing how far it is.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn rounds(&mut self, session: &mut Session<'_>, watch: &mut Watch) -> Result<(), LabError> {
        // The check comes first: it also warms up, and a path that loses bytes is not worth timing.
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
            self.bar.set_message(format!("{} {}: where does the time go?", case.group, case.name));
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

/// Time for which a case runs repeatedly to be sampled.
const SAMPLED: Duration = Duration::from_secs(1);

/// One experiment under way.
struct Session<'a> {
    experiment: &'a mut dyn Experiment,
    recorder: &'a mut Recorder,
    /// Ways that this machine supports.
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
                    // Figures of other work than the name says have no rank.
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

    /// Records which cases differ from their names.
    fn caveats(&mut self) -> Result<(), LabError> {
        self.cases.iter().try_for_each(|case| match self.experiment.caveat(case) {
            Some(text) => self.recorder.caveat(self.experiment.name(), case, text),
            None => Ok(()),
        })
    }

    /// Runs a case for a second while its stacks are sampled.
    fn flame(&mut self, case: &Case) -> Result<(), LabError> {
        let with = match self.experiment.worker(case) {
            None => flame::start()?,
            Some(pid) => match flame::start_on(pid)? {
                Some(with) => with,
                None => {
                    let text = "no flame graph: perf may not look at another process here".to_owned();
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
            "; the kernel's part, which may be most, it may not see here"
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

    /// Rounds in which every case ran that was not left out.
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
