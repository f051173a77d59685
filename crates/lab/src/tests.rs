//! Parts that the tests of all experiments share.

use crate::record::{Line, Recorder};
use crate::{Bench, Experiment, Limits, Method, summary};

/// Runs an experiment at the smallest scale. Every case must be skipped, or pass its check and have
/// a value for the first metric.
pub(crate) fn tiny(bench: &Bench, experiment: &mut dyn Experiment) {
    let mut recorder = Recorder::in_memory();
    let mut method = Method::new(Limits::of(bench.scale()), 1);
    recorder.run(bench, method.limits(), method.seed()).unwrap();
    method.run(experiment, &mut recorder).unwrap();
    let summaries = summary::of(recorder.lines());
    let [summary] = summaries.as_slice() else { panic!("one experiment: {summaries:?}") };
    let rows: Vec<_> = summary.groups.iter().flat_map(|group| &group.rows).collect();
    let skipped = summary.notes.iter().filter(|note| note.contains("left out")).count();
    let astray = summary.notes.iter().find(|note| note.contains("bytes took the path"));
    assert_eq!(astray, None, "the bytes of a case took another path than its name says");
    assert_eq!(rows.len() + skipped, experiment.cases().len(), "{:?}", summary.notes);
    assert!(!rows.is_empty(), "{:?}", summary.notes);
    for row in rows {
        assert_eq!(row.sound, Some(true), "{}: {:?}", row.case, summary.notes);
        let first = &summary.metrics[0].name;
        assert!(row.metrics.contains_key(first), "{} has no {first}", row.case);
    }
    for line in recorder.lines() {
        let text = serde_json::to_string(line).unwrap();
        assert_eq!(&serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
    }
}

#[test]
fn command_line_names_all_experiments() {
    use levada_terminal::lab::{BROKER_EXPERIMENTS, FILES_EXPERIMENTS};
    assert_eq!(crate::broker::OFFERS.map(|offer| offer.name), BROKER_EXPERIMENTS);
    assert_eq!(crate::files::OFFERS.map(|offer| offer.name), FILES_EXPERIMENTS);
}
