//! Tests of the counters.

use super::*;

#[test]
fn each_count_is_reported_under_its_name() {
    let counters = Counters::default();
    for (weight, path) in (1..).zip(Path::ALL) {
        counters.moved(path, weight * 100);
        for _ in 0..weight {
            counters.call(path, || ());
        }
    }
    for (weight, cause) in (1..).zip(Fallback::ALL) {
        for _ in 0..weight {
            counters.fell_back(cause);
        }
    }
    counters.copied(77);
    counters.copied_by_kernel(76);
    counters.warmed(78);
    counters.dropped_behind(79);
    let snapshot = counters.snapshot();
    for (weight, path) in (1..).zip(Path::ALL) {
        assert_eq!((snapshot.bytes(path), snapshot.calls(path)), (weight * 100, weight), "{path}");
    }
    for (weight, cause) in (1..).zip(Fallback::ALL) {
        assert_eq!(snapshot.fallbacks(cause), weight, "{}", cause.label());
    }
    let samples: Vec<Sample> = snapshot.samples().collect();
    assert_eq!(samples.len(), 3 * Path::ALL.len() + Fallback::ALL.len() + 4);
    assert!(samples.contains(&Sample { metric: "bytes", label: Some(("path", "splice")), value: 400 }));
    assert!(samples.contains(&Sample { metric: "fallbacks", label: Some(("cause", "no_pipe")), value: 2 }));
    for (metric, value) in [
        ("copied_bytes", 77),
        ("copied_by_kernel_bytes", 76),
        ("warmed_bytes", 78),
        ("dropped_behind_bytes", 79),
    ] {
        assert!(samples.contains(&Sample { metric, label: None, value }), "{metric}");
    }
}

#[test]
fn a_long_call_is_a_stall() {
    let counters = Counters::default();
    counters.call(Path::Sendfile, || {
        let start = Instant::now();
        while start.elapsed() <= STALL {}
    });
    assert_eq!(counters.snapshot().stalls(Path::Sendfile), 1);
    assert_eq!(counters.snapshot().stalls(Path::Splice), 0);
}
