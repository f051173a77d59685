//! Black-box suites as their files describe them: `tests/tests/FOLDER/SUITE.rs` is the module
//! `SUITE` of the test binary `FOLDER`, and a line in its head tells how to run it:
//!
//! ```text
//! //! Suite: TIER[, alone]; SECONDS s[; needs PROGRAM, …][; uses PROGRAM, …][; share NAME]
//! ```
//!
//! The tier is `short`, `long` or `soak`: short suites belong to `cargo xtask test` and run against
//! the binary of the dev profile, long ones to `--all` and soak ones to a soak, both against the
//! release binary. A suite that is *alone* compares times or memory with bounds, or loads the whole
//! machine. The seconds are its duration beside others. A suite does not run without the programs
//! that it needs; those that it only uses are installed for it where that is possible. A suite that
//! needs `newer-kafka` runs with the next Kafka instead of the usual one. The share is a row of
//! `tests/budget.toml`.

use std::fs;
use std::path::Path;

/// The share of a suite that names none.
pub(crate) const BASE: &str = "base";

/// The shortest run that includes a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Short,
    Long,
    Soak,
}

/// A suite's description, from the head of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) tier: Tier,
    pub(crate) is_alone: bool,
    /// Expected duration in seconds, in parallel with other suites.
    pub(crate) seconds: u64,
    /// Programs without which the suite does not run.
    pub(crate) needs: Vec<String>,
    /// Programs whose absence the suite's tests notice themselves.
    pub(crate) uses: Vec<String>,
    /// Row of the time budget to which the suite belongs.
    pub(crate) share: String,
}

/// A file of black-box tests.
#[derive(Clone, Debug)]
pub(crate) struct Suite {
    /// Name of the test binary: the folder of the suite.
    pub(crate) folder: String,
    pub(crate) name: String,
    pub(crate) head: Head,
}

/// Every suite below `tests/tests`, the longest first, so that none of them is left over at the
/// end. An error names the file whose head is not valid, or that no binary includes.
pub(crate) fn suites(root: &Path) -> Result<Vec<Suite>, String> {
    let mut suites = Vec::new();
    for folder in names(&root.join("tests/tests"), |path| path.is_dir())? {
        let path = root.join("tests/tests").join(&folder);
        let main = read(&path.join("main.rs"))?;
        for name in names(&path, |path| path.extension().is_some_and(|end| end == "rs"))? {
            if name == "main" {
                continue;
            }
            let file = path.join(&name).with_extension("rs");
            let failed = |error: String| format!("{}: {error}", file.display());
            if !main.lines().any(|line| line == format!("mod {name};")) {
                return Err(failed(format!("main.rs beside it has no line `mod {name};`")));
            }
            let head = head(&read(&file)?).map_err(failed)?;
            suites.push(Suite { folder: folder.clone(), name, head });
        }
    }
    suites.sort_by_key(|suite| std::cmp::Reverse(suite.head.seconds));
    Ok(suites)
}

/// Reads the head of a suite's file.
pub(crate) fn head(text: &str) -> Result<Head, String> {
    let lines = text.lines().take_while(|line| line.starts_with("//!"));
    let mut found = lines.filter_map(|line| line.strip_prefix("//! Suite: "));
    let (line, next) = (found.next(), found.next());
    match (line, next) {
        (Some(line), None) => parse(line).map_err(|error| format!("`Suite: {line}`: {error}")),
        (Some(_), Some(_)) => Err("the head has two lines `//! Suite: …`".to_owned()),
        (None, _) => Err("the head has no line such as `//! Suite: short; 12 s; needs kcat`".to_owned()),
    }
}

fn parse(line: &str) -> Result<Head, String> {
    let mut parts = line.split("; ");
    let (tier, is_alone) = match parts.next().unwrap_or_default().split_once(", alone") {
        Some((tier, "")) => (tier, true),
        _ => (line.split("; ").next().unwrap_or_default(), false),
    };
    let tier = match tier {
        "short" => Tier::Short,
        "long" => Tier::Long,
        "soak" => Tier::Soak,
        other => return Err(format!("`{other}` is not short, long or soak, with `, alone` or without")),
    };
    let seconds = parts.next().and_then(|part| part.strip_suffix(" s")?.parse().ok());
    let seconds =
        seconds.filter(|seconds| *seconds > 0).ok_or("the second part is not a time such as `12 s`")?;
    let (mut needs, mut uses, mut share) = (Vec::new(), Vec::new(), BASE.to_owned());
    for part in parts {
        let words = |list: &str| list.split(", ").map(str::to_owned).collect();
        match part.split_once(' ') {
            Some(("needs", list)) if needs.is_empty() => needs = words(list),
            Some(("uses", list)) if uses.is_empty() => uses = words(list),
            Some(("share", name)) if share == BASE => share = name.to_owned(),
            _ => return Err(format!("`{part}` is not `needs …`, `uses …` or `share …`")),
        }
    }
    Ok(Head { tier, is_alone, seconds, needs, uses, share })
}

impl Suite {
    /// True if the suite is part of a run.
    pub(crate) fn belongs_to(&self, is_all: bool) -> bool {
        self.is_short() || is_all && self.head.tier == Tier::Long
    }

    /// True if the suite belongs to the short tier.
    pub(crate) fn is_short(&self) -> bool {
        self.head.tier == Tier::Short
    }

    /// True if this is the suite's name or that of its folder.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.folder == name
    }

    /// Names of the programs that the suite needs or uses.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        self.head.needs.iter().chain(&self.head.uses).map(String::as_str)
    }

    /// Seconds that the suite adds to a run on two processors, on which another suite runs in
    /// parallel.
    pub(crate) fn cost(&self) -> f64 {
        self.head.seconds as f64 / if self.head.is_alone { 1.0 } else { 2.0 }
    }
}

/// Names without ending of a folder's entries, in order.
fn names(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<String>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    let paths = entries.iter().map(fs::DirEntry::path).filter(|path| is_wanted(path));
    let mut names: Vec<String> =
        paths.filter_map(|path| path.file_stem()?.to_str().map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
