//! Lines `//! Soak: …` in the head of a test file: the long runs of the tests in that file.
//!
//! | Line | Run |
//! |---|---|
//! | `Soak: lasts 30 s` | once, with the scale at which a test of 30 s lasts for the minutes of the soak |
//! | `Soak: scale 20` | once with this scale |
//! | `Soak: scale 500, repeated` | again and again until the minutes are over |
//! | `Soak: seed random, repeated` | the same with random seeds |
//! | `Soak: controllers 3` | once in a cluster with this number of controllers |
//!
//! `, filter TEXT` at the end selects the tests of the file whose names contain TEXT.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// A long run of the tests of one file.
#[derive(Debug, PartialEq)]
pub(super) struct Soak {
    pub(super) package: String,
    /// Name of the target in the package's `tests`; none for unit tests.
    pub(super) target: Option<String>,
    /// Module of the file in the test binary, such as `group::tests`; empty for its root.
    pub(super) module: String,
    pub(super) line: Line,
    /// File and number of the line.
    pub(super) place: String,
}

/// The text of a line.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) extent: Extent,
    /// True if the tests run again and again until the minutes are over.
    pub(super) is_repeated: bool,
    /// Part of the names of the tests.
    pub(super) filter: Option<String>,
}

/// Setting that makes a run long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent {
    /// Seconds of a test at scale 1. The test lasts longer in proportion to the scale.
    Lasts(f64),
    Scale(f64),
    RandomSeed,
    /// Number of controllers of each cluster.
    Controllers(u32),
}

const FORMS: &str = "`lasts N s`, `scale N[, repeated]`, `seed random[, repeated]` or `controllers N`, \
                     and then `, filter TEXT` if only some tests run";

impl Line {
    /// Parses the text after `Soak:`.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let malformed = || format!("`Soak: {}`: the forms are {FORMS}", text.trim());
        let mut parts = text.split(',').map(str::trim);
        let extent = parts.next().and_then(Extent::of).ok_or_else(malformed)?;
        let mut line = Self { extent, is_repeated: false, filter: None };
        for part in parts {
            match part.split_once(' ') {
                None if part == "repeated" && extent.is_repeatable() && line.is_bare() => {
                    line.is_repeated = true;
                }
                Some(("filter", filter)) if line.filter.is_none() && !filter.contains(' ') => {
                    line.filter = Some(filter.to_owned());
                }
                _ => return Err(malformed()),
            }
        }
        Ok(line)
    }

    fn is_bare(&self) -> bool {
        !self.is_repeated && self.filter.is_none()
    }
}

impl Extent {
    fn of(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let number =
            |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
        match words[..] {
            ["lasts", seconds, "s"] => number(seconds).map(Self::Lasts),
            ["scale", scale] => number(scale).map(Self::Scale),
            ["seed", "random"] => Some(Self::RandomSeed),
            ["controllers", count] => count.parse().ok().filter(|count| *count > 0).map(Self::Controllers),
            _ => None,
        }
    }

    fn is_repeatable(self) -> bool {
        matches!(self, Self::Scale(_) | Self::RandomSeed)
    }

    /// The environment variable that makes a run long, and its value for this number of minutes.
    pub(super) fn setting(self, minutes: u64) -> (&'static str, String) {
        match self {
            Self::Lasts(seconds) => ("LEVADA_TEST_SCALE", (60.0 * minutes as f64 / seconds).to_string()),
            Self::Scale(scale) => ("LEVADA_TEST_SCALE", scale.to_string()),
            Self::RandomSeed => ("LEVADA_TEST_SEED", "random".to_owned()),
            Self::Controllers(count) => ("LEVADA_TEST_CONTROLLERS", count.to_string()),
        }
    }
}

/// The long runs of all test files, in the order of their paths.
pub(super) fn soaks(root: &Path) -> Result<Vec<Soak>, String> {
    let mut folders = vec![(PathBuf::from("tests"), "tests")];
    for package in entries(&root.join("crates"))? {
        let package = Path::new("crates").join(package.file_name().unwrap_or_default());
        folders.extend([(package.clone(), "src"), (package, "tests")]);
    }
    folders.retain(|(package, folder)| root.join(package).join(folder).is_dir());
    folders.sort();
    let mut soaks = Vec::new();
    for (package, folder) in folders {
        let (mut files, below) = (Vec::new(), root.join(&package).join(folder));
        collect(&below, &mut files)?;
        for file in files {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let found = lines(&text, &shown)?;
            if found.is_empty() {
                continue;
            }
            let package = name(&root.join(&package).join("Cargo.toml"))?;
            let (target, module) = module(folder, file.strip_prefix(&below).unwrap_or(&file));
            soaks.extend(found.into_iter().map(|(number, line)| {
                let (package, target, module) = (package.clone(), target.clone(), module.clone());
                Soak { package, target, module, line, place: format!("{shown}:{number}") }
            }));
        }
    }
    Ok(soaks)
}

/// The lines in the head of a file, with their numbers.
pub(super) fn lines(text: &str, file: &str) -> Result<Vec<(usize, Line)>, String> {
    let head = text.lines().map_while(|line| line.strip_prefix("//!")).enumerate();
    let soaks = head.filter_map(|(index, line)| Some((index + 1, line.trim().strip_prefix("Soak:")?)));
    let parsed = |(number, text)| match Line::of(text) {
        Ok(line) => Ok((number, line)),
        Err(error) => Err(format!("{file}:{number}: {error}")),
    };
    soaks.map(parsed).collect()
}

/// The target of a file below a package's `src` or `tests`, if it is one of `tests`, and the file's
/// module in the test binary.
pub(super) fn module(folder: &str, file: &Path) -> (Option<String>, String) {
    let path = file.with_extension("");
    let mut names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    let target = (folder == "tests" && !names.is_empty()).then(|| names.remove(0).to_owned());
    if names.last().is_some_and(|name| ["lib", "main", "mod"].contains(name)) {
        names.pop();
    }
    (target, names.join("::"))
}

/// The name of the package of a manifest.
fn name(manifest: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", manifest.display());
    let text = fs::read_to_string(manifest).map_err(|error| failed(&error))?;
    let table: Table = text.parse().map_err(|error| failed(&error))?;
    let name = table.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    name.map(str::to_owned).ok_or_else(|| failed(&"no name of a package"))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in entries(folder)? {
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The entries of a folder, in order.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}
