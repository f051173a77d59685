//! Rules for text that people read: links lead somewhere, the changelog is kept, nothing is left
//! "to do", and no path of a developer's machine appears.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Complaint, Source};
use crate::markdown;

/// Paths of a developer's machine. Split, so that this file does not break its own rule.
const MACHINE: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

/// A note to oneself belongs in the tracker. Split for the same reason.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Markers that a merge leaves at the start of a line. Split for the same reason.
const MERGE: [&str; 2] = [concat!("<<<<", "<<< "), concat!(">>>>", ">>> ")];

/// Persons in place of a thing, and words for which the field has better terms.
const PERSONS: [&str; 5] = ["anew", "everybody", "nobody", "somebody", "whoever"];

/// The style guide, which quotes such words.
const STYLE_GUIDE: &str = "CONTRIBUTING.md";

/// Hosts that documents may link to: specifications, manuals and sources that people can look up.
const HOSTS: [&str; 12] = [
    "127.0.0.1",
    "cwiki.apache.org",
    "doc.rust-lang.org",
    "docs.rs",
    "git.kernel.org",
    "github.com",
    "issues.apache.org",
    "kafka.apache.org",
    "keepachangelog.com",
    "man7.org",
    "semver.org",
    "www.apache.org",
];

/// Rules for every text file.
pub(super) fn check_text(source: &Source) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let generated = source.path.ends_with("Cargo.lock") || source.path.ends_with("LICENSE");
    for (index, line) in source.text.lines().enumerate() {
        if generated {
            break;
        }
        let words = || line.split(|c: char| !c.is_ascii_alphanumeric());
        if let Some(word) = UNFINISHED.iter().find(|word| words().any(|found| found == **word)) {
            complaints.push(source.complaint(index + 1, format!("{word}: finish it or file it")));
        }
        if let Some(word) = is_prose(source, line).then(|| person(line)).flatten() {
            complaints.push(source.complaint(index + 1, format!("\"{word}\": name the thing")));
        }
        if MERGE.iter().any(|mark| line.starts_with(mark)) {
            complaints.push(source.complaint(index + 1, "an unresolved merge conflict"));
        }
        if let Some(place) = MACHINE.iter().find(|place| line.contains(**place)) {
            complaints.push(source.complaint(index + 1, format!("{place}… is a place on one machine")));
        }
    }
    complaints
}

/// True for a line of a document, or of a comment in the product.
fn is_prose(source: &Source, line: &str) -> bool {
    let is_comment =
        || source.has_extension("rs") && !source.is_test() && line.trim_start().starts_with("//");
    source.has_extension("md") && source.path != Path::new(STYLE_GUIDE) || is_comment()
}

fn person(line: &str) -> Option<&'static str> {
    let words: Vec<String> = line.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase).collect();
    PERSONS.into_iter().find(|person| words.iter().any(|word| word == person))
}

/// Rules for the documents, which may refer to each other.
pub(super) fn check_documents(sources: &[Source]) -> Vec<Complaint> {
    let paths: BTreeSet<&Path> = sources.iter().map(|source| source.path.as_path()).collect();
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension("md")) {
        for link in markdown::links(&source.text) {
            if let Some(what) = broken(source, link.target, sources, &paths) {
                complaints.push(source.complaint(link.line, what));
            }
        }
    }
    complaints.extend(unlisted(sources));
    complaints.extend(without_status(sources));
    match sources.iter().find(|source| source.path == Path::new("CHANGELOG.md")) {
        Some(log) if log.text.lines().any(|line| line == "## [Unreleased]") => {}
        Some(log) => complaints.push(log.complaint(1, "the changelog has a section `## [Unreleased]`")),
        None => complaints.push(Complaint {
            path: "CHANGELOG.md".into(),
            line: 1,
            what: "there is a changelog".to_string(),
        }),
    }
    complaints
}

/// The page that lists every other page below its folder.
const INDEX: &str = "docs/README.md";

/// Pages that the index does not list: readers find them only by chance.
fn unlisted(sources: &[Source]) -> Vec<Complaint> {
    let Some(index) = sources.iter().find(|source| source.path == Path::new(INDEX)) else {
        return Vec::new();
    };
    let folder = index.path.parent().unwrap_or(Path::new(""));
    let links = markdown::links(&index.text);
    let listed: BTreeSet<PathBuf> =
        links.iter().filter_map(|link| markdown::file(&index.path, link.target)).collect();
    let pages = sources.iter().filter(|page| page.path.starts_with(folder) && page.has_extension("md"));
    pages
        .filter(|page| page.path != index.path && !listed.contains(&page.path))
        .map(|page| page.complaint(1, format!("{INDEX} does not list this page")))
        .collect()
}

/// Notes of decisions that do not state, after their title, if they are in force.
fn without_status(sources: &[Source]) -> Vec<Complaint> {
    let notes = sources.iter().filter(|page| page.path.starts_with("docs/decisions"));
    notes
        .filter(|page| !page.text.lines().nth(2).is_some_and(|line| line.starts_with("**Status.** ")))
        .map(|page| page.complaint(3, "the third line of a decision is `**Status.** …`"))
        .collect()
}

fn broken(source: &Source, target: &str, sources: &[Source], paths: &BTreeSet<&Path>) -> Option<String> {
    if let Some((_, rest)) = target.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        return (!HOSTS.contains(&host)).then(|| format!("{host} is not a host that documents link to"));
    }
    let (_, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = markdown::file(&source.path, target);
    let exists = |path: &PathBuf| paths.iter().any(|other| other.starts_with(path));
    let Some(path) = path.filter(exists) else {
        return Some(format!("the link leads nowhere: {target}"));
    };
    let page = sources.iter().find(|page| page.path == path && page.has_extension("md"))?;
    let found = anchor.is_empty() || headings(&page.text).any(|heading| heading == anchor);
    (!found).then(|| format!("no such heading: {target}"))
}

/// Headings in the form of link targets.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}
