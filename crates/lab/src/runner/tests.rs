//! The runner alternates the cases, checks each once, and omits cases that this machine cannot run.

use super::*;
use crate::record::summary;

/// An experiment that records its runs. The case `absent` does not exist on this machine.
#[derive(Default)]
struct Fake {
    runs: Vec<(String, Pass)>,
    interrupt_after: Option<usize>,
    /// Name of the case that loses bytes.
    torn: Option<&'static str>,
}

impl Experiment for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn shows(&self) -> String {
        "That the method works.".to_owned()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::less("cost", "cost", "s")]
    }

    fn cases(&self) -> Vec<Case> {
        ["slow", "fast", "absent"].map(|name| Case::new("all", name)).to_vec()
    }

    fn run(&mut self, case: &Case, pass: Pass) -> Result<Outcome, LabError> {
        self.runs.push((case.name.clone(), pass));
        if self.interrupt_after == Some(self.runs.len()) {
            return Err(LabError::Interrupted);
        }
        let drift = self.runs.len() as f64;
        Ok(match (case.name.as_str(), pass) {
            ("absent", _) => Outcome::Skipped("not here".to_owned()),
            (name, Pass::Integrity) => {
                let sound = self.torn != Some(name);
                Outcome::Checked(Verdict { sound, what: "nothing".to_owned() })
            }
            ("slow", _) => Outcome::Measured([("cost".to_owned(), 2.0 * drift)].into()),
            _ => Outcome::Measured([("cost".to_owned(), drift)].into()),
        })
    }
}

fn run(fake: &mut Fake, rounds: u32) -> (Recorder, Result<(), LabError>) {
    let mut recorder = Recorder::in_memory();
    let ended = Method::new(Limits::exactly(rounds), 5).run(fake, &mut recorder);
    (recorder, ended)
}

#[test]
fn cases_alternate_randomly_and_are_checked_once() {
    let mut fake = Fake::default();
    let (recorder, ended) = run(&mut fake, 20);
    ended.unwrap();
    let timed: Vec<&str> =
        fake.runs.iter().filter(|(_, pass)| *pass == Pass::Timed).map(|(name, _)| name.as_str()).collect();
    assert_eq!(timed.len(), 40);
    assert!(timed.chunks(2).all(|round| round[0] != round[1]), "{timed:?}");
    let slow_first = timed.chunks(2).filter(|round| round[0] == "slow").count();
    assert!((3..=17).contains(&slow_first), "{timed:?}");
    assert_eq!(fake.runs.iter().filter(|(name, _)| name == "absent").count(), 1);

    let summaries = summary::of(recorder.lines());
    let rows = &summaries[0].groups[0].rows;
    assert_eq!(rows.iter().map(|row| row.case.as_str()).collect::<Vec<_>>(), ["slow", "fast"]);
    assert!(rows.iter().all(|row| row.sound == Some(true) && row.metrics["cost"].count == 20));
    assert_eq!(rows[0].relative.unwrap().median, 1.0);
    // The cost drifts by a factor of 20 during the run. Pairs of the same round cancel the drift.
    let relative = rows[1].relative.unwrap();
    assert!((1.5..2.8).contains(&relative.median), "{relative:?}");
    assert_eq!(summaries[0].notes, ["all, absent: left out: not here"]);
}

#[test]
fn interrupted_run_ends_with_a_complete_record() {
    let mut fake = Fake { interrupt_after: Some(8), ..Fake::default() };
    let (recorder, ended) = run(&mut fake, 20);
    assert!(matches!(ended, Err(LabError::Interrupted)), "{ended:?}");
    let Some(Line::Ended(last)) = recorder.lines().last() else { panic!("{:?}", recorder.lines()) };
    assert!(last.interrupted && last.rounds == 2, "{last:?}");
}

#[test]
fn order_of_cases_depends_only_on_the_seed() {
    let order = |seed| {
        let mut fake = Fake::default();
        Method::new(Limits::exactly(30), seed).run(&mut fake, &mut Recorder::in_memory()).unwrap();
        fake.runs
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn case_with_lost_bytes_is_not_timed() {
    let mut fake = Fake { torn: Some("fast"), ..Fake::default() };
    let (recorder, ended) = run(&mut fake, 7);
    ended.unwrap();
    let runs = fake.runs.iter().filter(|(name, _)| name == "fast");
    assert_eq!(runs.map(|(_, pass)| *pass).collect::<Vec<_>>(), [Pass::Integrity]);
    let summaries = summary::of(recorder.lines());
    let torn = &summaries[0].groups[0].rows[1];
    assert_eq!((torn.case.as_str(), torn.sound, torn.metrics.len()), ("fast", Some(false), 0));
    let Some(Line::Ended(last)) = recorder.lines().last() else { panic!("{:?}", recorder.lines()) };
    assert_eq!(last.rounds, 7, "the other case did not run in all rounds");
}
