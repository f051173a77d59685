//! The house rules that a machine can check. Each rule is a separate file below `tidy/` and is a
//! function from text to complaints, so that its test can use a bad sample.

mod changes;
mod cycles;
mod edges;
mod events;
mod figures;
mod formats;
mod names;
mod prose;
mod seam;
mod shape;
mod types;
mod unsafety;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of the crates that make up a broker and that write events and files.
const BROKER: [&str; 9] =
    ["base", "broker", "config", "coordination", "log", "metadata", "process", "security", "web"];

/// A broken rule, with its path and line.
#[derive(Debug, PartialEq)]
struct Complaint {
    path: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// A file of the repository: its path from the root, and its text.
struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    fn complaint(&self, line: usize, what: impl Into<String>) -> Complaint {
        Complaint { path: self.path.clone(), line, what: what.into() }
    }

    fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }

    /// True if the whole file is test code: `tests.rs`, or below a folder `tests` inside a crate.
    fn is_test(&self) -> bool {
        let inside_crate = match self.path.strip_prefix("crates") {
            Ok(rest) => rest,
            Err(_) => &self.path,
        };
        let mut folders = inside_crate.parent().into_iter().flat_map(Path::components).skip(1);
        self.path.file_name().is_some_and(|name| name == "tests.rs")
            || folders.any(|folder| folder.as_os_str() == "tests")
    }
}

/// Checks the repository and prints the complaints.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let sources = sources(root)?;
    let mut complaints = check(&sources);
    complaints.extend(changes::check(root)?);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        1 => Err("one house rule is broken".to_string()),
        many => Err(format!("house rules are broken in {many} places")),
    }
}

/// Every text file that git tracks or would add.
fn sources(root: &Path) -> Result<Vec<Source>, String> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listing = git.output().map_err(|error| format!("git: {error}"))?;
    if !listing.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listing.stderr)));
    }
    let paths = listing.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    let mut sources = Vec::new();
    for path in paths {
        let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
        // Binary files have no rules; a path that git still lists may be deleted in the work tree.
        if let Ok(text) = fs::read_to_string(root.join(&path)) {
            sources.push(Source { path, text });
        }
    }
    Ok(sources)
}

fn check(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in sources {
        complaints.extend(prose::check_text(source));
        if source.has_extension("rs") {
            complaints.extend(check_rust(source));
        }
        if source.path.ends_with("Cargo.toml") {
            complaints.extend(edges::check(source));
        }
    }
    complaints.extend(changes::check_words(sources));
    complaints.extend(prose::check_documents(sources));
    complaints.extend(events::check(sources));
    complaints.extend(figures::check(sources));
    complaints.extend(formats::check(sources));
    complaints.extend(cycles::check(sources));
    complaints.extend(names::check_crates(sources));
    complaints.extend(types::check(sources));
    complaints.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    complaints
}

fn check_rust(source: &Source) -> Vec<Complaint> {
    let file = match syn::parse_file(&source.text) {
        Ok(file) => file,
        Err(error) => return vec![source.complaint(error.span().start().line, format!("no Rust: {error}"))],
    };
    let mut complaints = shape::check(source, &file);
    complaints.extend(names::check(source, &file));
    complaints.extend(unsafety::check(source, &file));
    complaints.extend(seam::check(source, &file));
    complaints
}

#[cfg(test)]
mod tests;
