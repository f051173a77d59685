//! The page contains the results of its records, and the committed page is made from the committed
//! records.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::record::{self, Announced, CaseLine, Metric};
use crate::report;

const SEND: At = At { experiment: "e", group: "g", case: "send" };
const OTHER: At = At { experiment: "e", group: "g", case: "other" };

fn samples_of(at: At, values: [f64; 7]) -> impl Iterator<Item = Line> {
    (1..).zip(values).map(move |(round, value)| {
        Line::Sample(Sample {
            experiment: at.experiment.to_owned(),
            group: at.group.to_owned(),
            case: at.case.to_owned(),
            params: BTreeMap::new(),
            round,
            metrics: [("cost".to_owned(), value)].into(),
            verdict: None,
        })
    })
}

#[test]
fn claim_is_confirmed_from_half_its_factor() {
    fn check(measured: f64, times: f64, expected: ClaimVerdict) {
        let base = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.02];
        let mut lines: Vec<Line> = samples_of(SEND, base.map(|value| value * measured)).collect();
        lines.extend(samples_of(OTHER, base));
        let lines: Vec<&Line> = lines.iter().collect();
        let (verdict, text) = of_times(&lines, &["cost"], (SEND, OTHER), times).unwrap();
        assert_eq!(verdict, expected, "{measured} for {times}: {text}");
    }
    check(4.0, 4.0, ClaimVerdict::Confirmed);
    check(2.1, 4.0, ClaimVerdict::Confirmed);
    check(1.9, 4.0, ClaimVerdict::InPart);
    check(1.0, 4.0, ClaimVerdict::Refuted);
    check(0.5, 4.0, ClaimVerdict::Refuted);
    check(1.05, 1.0, ClaimVerdict::Confirmed);
    check(1.5, 1.0, ClaimVerdict::Refuted);
}

#[test]
fn runs_that_differ_too_much_give_no_verdict() {
    let mut lines: Vec<Line> = samples_of(SEND, [0.2, 9.0, 0.3, 8.0, 0.1, 7.0, 9.0]).collect();
    lines.extend(samples_of(OTHER, [1.0; 7]));
    let lines: Vec<&Line> = lines.iter().collect();
    let verdict = |times| of_times(&lines, &["cost"], (SEND, OTHER), times).unwrap().0;
    assert_eq!((verdict(4.0), verdict(1.0)), (ClaimVerdict::NotSure, ClaimVerdict::NotSure));
    assert_eq!(verdict(400.0), ClaimVerdict::Refuted);
}

#[test]
fn break_even_size_is_the_last_change() {
    let group = |size: u32| format!("g{size}");
    let check = |costs: &[(u32, f64)], expected: &str| {
        let case = |(size, _): &(u32, f64)| CaseLine {
            group: group(*size),
            case: "send".to_owned(),
            params: [("message_bytes".to_owned(), size.to_string())].into(),
        };
        let mut lines = vec![Line::Experiment(Announced {
            experiment: "e".to_owned(),
            shows: String::new(),
            metrics: vec![Metric::less("cost", "cost", "s")],
            cases: costs.iter().map(case).collect(),
            sweep: None,
        })];
        for (size, cost) in costs {
            let group: &'static str = group(*size).leak();
            lines.extend(samples_of(At { group, ..SEND }, [*cost; 7]));
            lines.extend(samples_of(At { group, ..OTHER }, [1.0; 7]));
        }
        let lines: Vec<&Line> = lines.iter().collect();
        let (_, text) = of_size(&lines, &["cost"], (SEND, OTHER), 4096.0).unwrap();
        assert!(text.starts_with(expected), "{text}");
    };
    check(&[(1024, 2.0), (2048, 0.5), (4096, 0.5)], "from 2\u{202f}KiB on");
    check(&[(1024, 0.5), (2048, 2.0), (4096, 0.5)], "from 4\u{202f}KiB on");
    check(&[(1024, 0.5), (2048, 2.0)], "at no size");
}

#[test]
fn page_names_claims_without_a_measurement() {
    let page = page(&BTreeMap::new());
    assert_eq!(page.matches("**not measured**").count(), CLAIMS.len());
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn runs() -> BTreeMap<String, Vec<Line>> {
    let files = fs::read_dir(docs().join("lab/runs")).unwrap().map(|file| file.unwrap().path());
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), record::read(&path).unwrap())).collect()
}

#[test]
fn claims_page_matches_its_records() {
    let committed = fs::read_to_string(docs().join("lab/claims.md")).unwrap();
    assert_eq!(page(&runs()), committed, "docs/lab/record.sh writes the page again");
    assert!(!committed.contains("**not measured**"), "a claim has no figures");
}

#[test]
fn claims_pictures_match_their_records() {
    let runs = runs();
    for Picture { name, experiment, group } in PICTURES {
        let committed = fs::read_to_string(docs().join(format!("pictures/{name}.svg"))).unwrap();
        assert_eq!(
            report::picture(&runs[experiment], experiment, group).as_ref(),
            Some(&committed),
            "{name}"
        );
    }
}

#[test]
fn committed_records_are_already_reduced() {
    let runs = runs();
    let again = kept(&runs.values().cloned().collect::<Vec<_>>());
    assert_eq!(again, runs);
}

#[test]
fn published_command_line_omits_local_paths() {
    fn check(word: &str, expected: &str) {
        assert_eq!(without_place(word), expected);
    }
    check("/usr/bin/levada", "levada");
    check("--nginx=/usr/sbin/nginx", "--nginx=nginx");
    check("--network", "--network");
    check("files", "files");
}
