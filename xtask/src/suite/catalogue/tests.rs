//! Heads of suites, and folders of them.

use std::fs;
use std::path::{Path, PathBuf};

use super::{BASE, Head, Tier, head, suites};

#[test]
fn suite_heads_are_parsed() {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let expected = |tier, is_alone, seconds, (needs, uses): (&[&str], &[&str]), share: &str| Head {
        tier,
        is_alone,
        seconds,
        needs: words(needs),
        uses: words(uses),
        share: share.to_owned(),
    };
    let table = [
        ("short; 12 s", expected(Tier::Short, false, 12, (&[], &[]), BASE)),
        ("long, alone; 1 s; needs java", expected(Tier::Long, true, 1, (&["java"], &[]), BASE)),
        (
            "soak; 40 s; needs java, kcat; uses go; share queues",
            expected(Tier::Soak, false, 40, (&["java", "kcat"], &["go"]), "queues"),
        ),
    ];
    for (line, expected) in table {
        assert_eq!(
            head(&format!("//! Records.\n//!\n//! Suite: {line}\n\nuse a;\n")),
            Ok(expected),
            "{line}"
        );
    }
}

#[test]
fn incomplete_or_invalid_suite_heads_are_refused() {
    let table = [
        "",
        "quick; 12 s",
        "short",
        "short; 12",
        "short; 0 s",
        "short, beside; 12 s",
        "short; 12 s; likes java",
        "short; 12 s; needs java; needs kcat",
    ];
    for line in table {
        assert!(head(&format!("//! Records.\n//! Suite: {line}\n")).is_err(), "{line}");
    }
    assert!(head("//! Records.\n\n//! Suite: short; 12 s\n").unwrap_err().contains("no line such as"));
    assert!(head("//! Suite: short; 1 s\n//! Suite: long; 1 s\n").unwrap_err().contains("two lines"));
}

/// A folder of suites of this test's own.
fn folder(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("levada-xtask-{name}-{}", std::process::id()));
    fs::create_dir_all(root.join("tests/tests/storage")).unwrap();
    root
}

fn names(root: &Path) -> Vec<(String, String)> {
    suites(root).unwrap().into_iter().map(|suite| (suite.folder, suite.name)).collect()
}

/// This program contains the name of no suite: the file and the line in `main.rs` suffice.
#[test]
fn suite_is_added_renamed_and_moved_by_file() {
    let root = folder("suites");
    let tests = root.join("tests/tests");
    let pair = |folder: &str, name: &str| (folder.to_owned(), name.to_owned());
    fs::write(tests.join("storage/main.rs"), "//! Storage.\n\nmod torn;\n").unwrap();
    fs::write(tests.join("storage/torn.rs"), "//! Torn files.\n//!\n//! Suite: short; 3 s\n").unwrap();
    assert_eq!(names(&root), [pair("storage", "torn")]);

    fs::rename(tests.join("storage/torn.rs"), tests.join("storage/cut.rs")).unwrap();
    assert!(suites(&root).unwrap_err().contains("cut.rs: main.rs beside it has no line `mod cut;`"));
    fs::write(tests.join("storage/main.rs"), "//! Storage.\n\nmod cut;\n").unwrap();
    assert_eq!(names(&root), [pair("storage", "cut")]);

    fs::create_dir(tests.join("disks")).unwrap();
    fs::write(tests.join("disks/main.rs"), "//! Disks.\n\nmod full;\n").unwrap();
    fs::write(tests.join("disks/full.rs"), "//! Full disks.\n//!\n//! Suite: long; 9 s\n").unwrap();
    assert_eq!(names(&root), [pair("disks", "full"), pair("storage", "cut")]);
    fs::remove_dir_all(root).unwrap();
}

/// A name in this program would have to follow each change of the suites.
#[test]
fn no_suite_is_named_in_this_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let known: Vec<String> =
        suites(root.parent().unwrap()).unwrap().into_iter().map(|suite| suite.name).collect();
    assert!(known.len() > 60, "{} suites", known.len());
    let mut folders = vec![root.join("src/suite"), root.join("src/job"), root.join("src/soak")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                for name in &known {
                    assert!(!text.contains(&format!("\"{name}\"")), "{} names {name}", path.display());
                }
            }
        }
    }
}

/// Calls of the tests' library, and the programs that they run.
const CALLS: [(&str, &str); 16] = [
    ("Tool::java(", "java"),
    ("Tool::own_java(", "java"),
    ("Cluster::", "java"),
    ("Tool::python(", "python"),
    ("Tool::kcat(", "kcat"),
    ("Tool::chromium(", "chromium"),
    ("Browser::", "chromium"),
    ("Tool::promtool(", "prometheus"),
    ("Tool::prometheus(", "prometheus"),
    ("Tool::go(", "go"),
    ("go_program(", "go"),
    ("Tool::node(", "node"),
    ("http_checker(", "http"),
    ("paths::kubernetes(", "kubernetes"),
    ("paths::nginx(", "nginx"),
    ("rust_target(", "rust"),
];

/// Without the name in its head, a suite fails on a machine that lacks the program.
#[test]
fn suite_heads_name_the_programs_they_call() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut missing = Vec::new();
    for suite in suites(root).unwrap() {
        let path = root.join("tests/tests").join(&suite.folder).join(&suite.name).with_extension("rs");
        let text = fs::read_to_string(&path).unwrap();
        for (call, program) in CALLS {
            if text.contains(call) && !suite.programs().any(|name| name == program) {
                missing.push(format!("{}: `{call}…)` needs {program}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
