//! The page contains the facts of the record, and escapes all text from the record.

use super::number;
use super::scale::Scale;
use super::*;
use crate::machine::noise::Noise;
use crate::record::{Announced, CaseLine, Ended, Note, Sample, Sweep, Verdict};

#[test]
fn numbers_have_three_significant_digits() {
    fn check(value: f64, expected: &str) {
        assert_eq!(number::plain(value), expected.replace(' ', "\u{202f}"));
    }
    check(0.0, "0");
    check(0.06534, "0.0653");
    check(0.5, "0.5");
    check(1.0, "1");
    check(2.314, "2.31");
    check(99.96, "100");
    check(1234.4, "1234");
    check(12_345.0, "12 345");
    check(245_261.0, "245 261");
    check(1_300_000.0, "1.3M");
    check(-2.5, "-2.5");
    check(1e-9, "1.0e-9");
    assert_eq!(number::size(65536.0), "64\u{202f}KiB");
    assert_eq!(number::size(0.0), "0\u{202f}B");
    assert_eq!(number::size(1.0), "1\u{202f}B");
    assert_eq!(number::size(1_572_864.0), "1.5\u{202f}MiB");
}

#[test]
fn scales_map_their_ends_to_the_edges() {
    let scale = Scale::covering([1.0, 2048.0].into_iter(), 100.0, 500.0);
    assert_eq!((scale.px(1.0), scale.px(2048.0)), (100.0, 500.0));
    assert!(scale.ticks().len() >= 4, "{:?}", scale.ticks());
    let scale = Scale::covering([3.0, 5.0].into_iter(), 500.0, 100.0);
    assert_eq!(scale.px(0.0), 500.0);
    assert!(scale.ticks().contains(&4.0), "{:?}", scale.ticks());
    // No values, and only zero.
    assert!(Scale::covering([].into_iter(), 0.0, 1.0).px(1.0).is_finite());
    assert!(Scale::covering([0.0].into_iter(), 0.0, 1.0).px(0.0).is_finite());
}

fn sample(group: &str, case: &str, round: u32, value: f64) -> Line {
    let verdict = (round == 0).then(|| Verdict { sound: case != "torn", what: String::new() });
    Line::Sample(Sample {
        experiment: "post".to_owned(),
        group: group.to_owned(),
        case: case.to_owned(),
        params: [("size_bytes".to_owned(), group.to_owned())].into(),
        round,
        metrics: if round == 0 { Default::default() } else { [("cost".to_owned(), value)].into() },
        verdict,
    })
}

fn record(cases: &[(&str, &str, f64)], sweep: Option<Sweep>) -> Vec<Line> {
    let line = |(group, case, _): &(&str, &str, f64)| CaseLine {
        group: (*group).to_owned(),
        case: (*case).to_owned(),
        params: [("size_bytes".to_owned(), (*group).to_owned())].into(),
    };
    let mut lines = vec![Line::Experiment(Announced {
        experiment: "post".to_owned(),
        shows: "What <it> costs & why.".to_owned(),
        metrics: vec![Metric::less("cost", "cost", "s/GB")],
        cases: cases.iter().map(line).collect(),
        sweep,
    })];
    for round in 0..7 {
        lines.extend(
            cases.iter().map(|(group, case, value)| {
                sample(group, case, round, value * (1.0 + f64::from(round) / 1e3))
            }),
        );
    }
    lines.push(Line::Note(Note {
        experiment: Some("post".to_owned()),
        group: None,
        case: None,
        text: "</script><script>alert(1)</script>".to_owned(),
        caveat: false,
    }));
    lines.push(Line::Ended(Ended {
        experiment: "post".to_owned(),
        rounds: 6,
        elapsed_ms: 5,
        interrupted: false,
        noise: Noise { doubts: vec!["somebody else was busy".to_owned()], ..Noise::default() },
    }));
    lines
}

#[test]
fn page_states_the_result_in_a_sentence() {
    fn check(cases: &[(&str, &str, f64)], expected: &str) {
        let page = html(&record(cases, None));
        assert!(page.contains(expected), "{expected} in {page}");
    }
    check(
        &[("g", "read", 2.0), ("g", "splice", 0.5)],
        "splice is the best here, with 0.502\u{202f}s/GB: 4 times better than read.",
    );
    check(&[("g", "read", 0.5), ("g", "splice", 2.0)], "read is the best here, with 0.502\u{202f}s/GB.");
}

#[test]
fn findings_from_a_busy_machine_are_marked_doubtful() {
    let lines = record(&[("16 KiB", "kafka", 2.0), ("16 KiB", "levada", 0.5)], None);
    let page = html(&lines);
    let (top, _) = page.split_once("<main>").expect("a header");
    assert!(top.contains("experiments. Each of them names the cause and the next step."), "{top}");
    assert!(top.contains("4 times better than kafka. <strong>Doubtful: the machine was busy"), "{top}");
    assert!(top.contains("<p class=\"axis-title\">Doubtful: post.</p>"), "{top}");
    let quiet: Vec<Line> = lines
        .into_iter()
        .map(|line| match line {
            Line::Ended(ended) => Line::Ended(Ended { noise: Noise::default(), ..ended }),
            line => line,
        })
        .collect();
    let page = html(&quiet);
    assert!(!page.to_lowercase().contains("doubtful:") && page.contains("The machine was quiet."), "{page}");
}

#[test]
fn cases_of_a_quantity_have_no_rank() {
    let group = "fetch, by segments of the log";
    let page = html(&record(&[(group, "1", 0.5), (group, "1000", 2.0), (group, "10000", 4.0)], None));
    assert!(
        page.contains("From 0.502\u{202f}s/GB for 1 segment to 4.01\u{202f}s/GB for 10\u{202f}000 segments.")
    );
    assert!(page.contains("cost in s/GB, by segments of the log; less is better"), "{page}");
    assert!(!page.contains("class=\"bar best\"") && !page.contains("is the best here"), "{page}");
    let picture =
        picture(&record(&[("x, by bytes asked for", "65536", 1.0)], None), "post", "x, by bytes asked for");
    assert!(picture.expect("the record contains the picture").contains(">64\u{202f}KiB</text>"));
}

#[test]
fn top_of_page_lists_the_findings() {
    let one = html(&record(&[("g", "read", 2.0), ("g", "splice", 0.5)], None));
    let (top, _) = one.split_once("<main>").expect("a header");
    assert!(top.contains("On this machine:") && top.contains("splice is the best here"), "{top}");
    let cases = [
        ("hot", "read", 2.0),
        ("hot", "splice", 0.5),
        ("cold", "read", 3.0),
        ("cold", "splice", 1.0),
        ("tiny", "read", 1.0),
        ("tiny", "splice", 4.0),
    ];
    let several = html(&record(&cases, None));
    let expected = "splice has the best cost in 2 of 3 comparisons; at most 4 times better than read, hot.";
    assert!(several.contains(expected), "{several}");
}

#[test]
fn case_with_a_caveat_has_no_rank() {
    let mut lines = record(&[("g", "read", 2.0), ("g", "huge", 0.5), ("g", "splice", 1.0)], None);
    lines.push(Line::Note(Note {
        experiment: Some("post".to_owned()),
        group: Some("g".to_owned()),
        case: Some("huge".to_owned()),
        text: "not cold: it was there before".to_owned(),
        caveat: true,
    }));
    let page = html(&lines);
    assert!(page.contains("splice is the best here"), "{page}");
    assert!(page.contains("huge does not rank: not cold: it was there before."), "{page}");
    assert!(page.contains("huge (not as named)"), "{page}");
}

#[test]
fn page_compares_levada_with_kafka_if_both_exist() {
    let page = html(&record(&[("16 KiB", "kafka", 2.0), ("16 KiB", "levada", 0.5)], None));
    assert!(page.contains("Levada beside Kafka") && page.contains("post 16 KiB: 4×"), "{page}");
    let page = html(&record(&[("g", "read", 2.0), ("g", "levada", 0.5)], None));
    assert!(!page.contains("Levada beside Kafka"));
}

#[test]
fn page_shows_no_spread_around_zero() {
    let page = html(&record(&[("g", "read", 0.0)], None));
    assert!(!page.contains("inf") && !page.contains('±'), "{page}");
}

#[test]
fn page_escapes_text_from_the_record() {
    let page = html(&record(&[("g", "<b>&\"x", 1.0), ("g", "torn", 1.0)], None));
    assert!(!page.contains("<b>&"), "a case became markup");
    assert!(!page.contains("<script>"), "a note became markup");
    assert!(page.contains("What &lt;it&gt; costs &amp; why."));
    assert!(page.contains("WRONG"), "the page shows the failed integrity check");
    assert!(page.contains("somebody else was busy"));
}

#[test]
fn page_has_no_references_to_other_files() {
    let page = html(&record(&[("g", "read", 2.0)], None));
    for reference in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn page_draws_a_sweep_as_curves() {
    let sweep = Sweep { across: "size_bytes".to_owned(), panel: None };
    let cases = [("1024", "send", 4.0), ("1024", "zc", 5.0), ("65536", "send", 3.0), ("65536", "zc", 1.0)];
    let page = html(&record(&cases, Some(sweep)));
    assert_eq!(page.matches("class=\"line\"").count(), 2 * 2, "one line a case, in both forms");
    assert_eq!(page.matches("<circle").count(), 2 * 4, "one dot a size, in both forms");
    assert!(page.contains("64\u{202f}KiB"));
}

#[test]
fn page_reports_doubts_noted_before_the_run() {
    let text = "the load was 4.7 on 2 processors before".to_owned();
    let note = Line::Note(Note { experiment: None, group: None, case: None, text, caveat: false });
    let page = html(&[record(&[("g", "read", 2.0)], None), vec![note]].concat());
    assert!(page.contains("The figures are not reliable: the load was 4.7 on 2 processors before."));
    assert!(!page.contains("The machine was quiet"));
}

#[test]
fn empty_record_yields_a_page() {
    assert!(html(&[]).contains("<main>"));
}
