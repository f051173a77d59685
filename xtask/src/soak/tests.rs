//! Arguments, lines in the heads of test files, and the long runs of this tree.

use std::path::Path;
use std::time::Duration;

use super::head::{Extent, Line, Soak, lines, module, soaks};
use super::{Kind, MINUTES, TestBinary, parse, targets};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn soak_arguments_are_parsed() {
    let parsed = |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(parsed(""), Ok((MINUTES, Vec::new())));
    assert_eq!(parsed("--minutes 3 fuzz crash"), Ok((3, vec!["fuzz".to_owned(), "crash".to_owned()])));
    for wrong in ["--minutes", "--minutes x", "--minutes 0", "--hours 1"] {
        assert!(parsed(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn soak_head_lines_are_parsed() {
    let line = |extent, is_repeated, filter: &str| {
        let filter = (!filter.is_empty()).then(|| filter.to_owned());
        Ok(Line { extent, is_repeated, filter })
    };
    let table = [
        ("lasts 30 s", line(Extent::Lasts(30.0), false, "")),
        ("lasts 0.5 s, filter seeds", line(Extent::Lasts(0.5), false, "seeds")),
        ("scale 20", line(Extent::Scale(20.0), false, "")),
        ("scale 2.5, repeated", line(Extent::Scale(2.5), true, "")),
        ("scale 2.5, repeated, filter mirrors", line(Extent::Scale(2.5), true, "mirrors")),
        ("scale 20, filter large", line(Extent::Scale(20.0), false, "large")),
        ("seed random", line(Extent::RandomSeed, false, "")),
        ("seed random, repeated", line(Extent::RandomSeed, true, "")),
        ("controllers 3", line(Extent::Controllers(3), false, "")),
    ];
    for (text, expected) in table {
        assert_eq!(Line::of(text), expected, "{text}");
    }
    let wrong = [
        "",
        "lasts 30",
        "lasts 0 s",
        "lasts 30 s, repeated",
        "scale",
        "scale -1",
        "scale inf",
        "scale 2 twice",
        "scale 2, again",
        "scale 2, repeated, repeated",
        "scale 2, filter a, repeated",
        "scale 2, filter",
        "scale 2, filter a b",
        "scale 2, filter a, filter b",
        "seed 7",
        "controllers 0",
        "controllers 3, repeated",
        "minutes 10",
    ];
    for text in wrong {
        assert!(Line::of(text).is_err(), "{text}");
    }
}

#[test]
fn soak_lines_are_read_from_head_only() {
    let text = "//! Subject.\n//!\n//! Soak: scale 2\n//! Soak: controllers 1\n\n//! Soak: nothing\n";
    let found = lines(text, "a.rs").unwrap();
    let found: Vec<_> = found.iter().map(|(number, line)| (*number, line.extent)).collect();
    assert_eq!(found, [(3, Extent::Scale(2.0)), (4, Extent::Controllers(1))]);
    let error = lines("//! Subject.\n//! Soak: often\n", "tests/a.rs").unwrap_err();
    assert!(error.starts_with("tests/a.rs:2: `Soak: often`: "), "{error}");
}

#[test]
fn a_path_is_a_target_and_a_module() {
    let table = [
        ("src", "lib.rs", None, ""),
        ("src", "broker/tests/crash.rs", None, "broker::tests::crash"),
        ("tests", "remembered.rs", Some("remembered"), ""),
        ("tests", "model/main.rs", Some("model"), ""),
        ("tests", "groups/streams.rs", Some("groups"), "streams"),
    ];
    for (folder, file, target, expected) in table {
        assert_eq!(
            module(folder, Path::new(file)),
            (target.map(str::to_owned), expected.to_owned()),
            "{file}"
        );
    }
}

#[test]
fn every_soak_has_a_unique_name() {
    let names: Vec<String> = soaks(root()).unwrap().iter().map(Soak::name).collect();
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name} is there twice");
    }
    for expected in ["levada-broker broker::tests::crash chosen_seed_survives_crashes", "levada-log model"] {
        assert!(names.iter().any(|name| name == expected), "{expected} is not one of {names:#?}");
    }
}

fn soak(module: &str, line: &str) -> Soak {
    Soak {
        package: "levada-tests".to_owned(),
        target: Some("cluster".to_owned()),
        module: module.to_owned(),
        line: Line::of(line).unwrap(),
        place: "a.rs:1".to_owned(),
    }
}

#[test]
fn soak_runs_only_tests_of_its_module() {
    let listed = "cluster::large: test\nconsole_cluster::large: test\ncluster::small: test\n\n3 tests\n";
    let tests = |module, line| soak(module, line).tests(listed);
    assert_eq!(tests("cluster", "scale 20"), ["cluster::large", "cluster::small"]);
    assert_eq!(tests("cluster", "scale 20, filter arg"), ["cluster::large"]);
    assert_eq!(tests("cluster", "scale 20, filter cluster"), [""; 0]);
    assert_eq!(tests("", "scale 20").len(), 3);
    assert_eq!(soak("cluster", "controllers 3").name(), "levada-tests cluster in a cluster");
}

#[test]
fn soak_scale_follows_from_minutes() {
    let table = [
        ("lasts 30 s", "LEVADA_TEST_SCALE", "20"),
        ("scale 2.5", "LEVADA_TEST_SCALE", "2.5"),
        ("seed random", "LEVADA_TEST_SEED", "random"),
        ("controllers 3", "LEVADA_TEST_CONTROLLERS", "3"),
    ];
    for (text, variable, value) in table {
        assert_eq!(Line::of(text).unwrap().extent.setting(10), (variable, value.to_owned()), "{text}");
    }
}

#[test]
fn fuzz_targets_are_found() {
    assert!(targets(root()).unwrap().contains(&"frames".to_owned()));
}

/// An hour of one test was ended after the half hour that every other test has.
#[test]
fn soak_time_limit_follows_its_declared_duration() {
    let binary = TestBinary {
        package: "levada-tests".to_owned(),
        target: "cluster".to_owned(),
        kind: Kind::Test,
        executable: "cluster".into(),
        folder: root().into(),
    };
    let names = ["one", "two", "three"].map(str::to_owned);
    for (line, least) in [("lasts 30 s", 3 * 60), ("scale 2, repeated", 60)] {
        let limit = soak("replication_faults", line).job_of(&binary, &names, 60).times.limit();
        assert!(limit > Duration::from_secs(60 * least), "{line}: {limit:?}");
    }
}
