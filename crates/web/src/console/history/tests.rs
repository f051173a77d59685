//! Samples, their rates, and their end.

use super::*;

#[test]
fn history_has_the_rates_of_the_last_hour() {
    let (history, start) = (History::default(), Instant::now());
    let at = |step: u32| start + STEP * step;
    let sample = |step: u32| Sample { at: at(step), produced: u64::from(step) * 50, fetched: 7 };
    assert!(history.renew());
    assert!(!history.renew(), "samples are being taken");
    assert_eq!(history.traffic(start), []);
    for step in 0..3 {
        assert!(history.push(sample(step)));
    }
    let of = |ago: f64| Traffic { ago, produced: 5.0, fetched: 0.0 };
    assert_eq!(history.traffic(at(2)), [of(10.0), of(0.0)]);
    for step in 3..1_000 {
        assert!(history.push(sample(step)));
        history.renew();
    }
    assert_eq!(history.traffic(at(999)).len(), SAMPLES_MAX - 1);
}

#[test]
fn samples_end_an_hour_after_the_last_reader() {
    let (history, at) = (History::default(), Instant::now());
    history.renew();
    let sample = Sample { at, produced: 0, fetched: 0 };
    let taken = (1..).take_while(|_| history.push(sample)).count();
    assert_eq!(taken, SAMPLES_MAX - 1);
    assert!(history.renew(), "the next page begins again");
    assert_eq!(history.traffic(at), [], "without what was before the pause");
}
