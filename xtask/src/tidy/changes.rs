//! Words that mislead, in all documents, comments and texts; and a rule for the titles of commits
//! since [`BASE`], which older titles do not keep.

use std::path::Path;
use std::process::Command;

use super::{Complaint, Source};

/// The last commit before these rules.
const BASE: &str = "c47a74637d0dc66ae7a9a827b84c91daeb0d9996";

/// Words of a foreign idiom, or with two meanings, with their replacements.
const WORDS: [(&str, &str); 6] = [
    ("as little as", "nor"),
    ("at once", "immediately, or at the same time"),
    ("behind it", "after it; \"behind\" is for lag alone"),
    ("behind its", "after its; \"behind\" is for lag alone"),
    ("behind the", "after the; \"behind\" is for lag alone"),
    ("in front of", "before"),
];

/// In a line with one of these words, "behind" is lag.
const LAG: [&str; 4] = ["lag", "records behind", "fall behind", "falls behind"];

/// Maximum number of columns of a commit's title.
const TITLE_COLUMNS: usize = 65;

/// Words with which no imperative begins.
const ARTICLES: [&str; 8] = ["a", "an", "each", "every", "it", "no", "the", "there"];

/// Checks the titles of commits; without the history, prints that they were not checked.
pub(super) fn check(root: &Path) -> Result<Vec<Complaint>, String> {
    let is_known = git(root, &["merge-base", "--is-ancestor", BASE, "HEAD"]).is_ok();
    if !is_known {
        println!("titles since {BASE}: not checked, because the history is not here");
        return Ok(Vec::new());
    }
    Ok(check_titles(&git(root, &["log", "--format=%h %s", &format!("{BASE}..HEAD")])?))
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let said = Command::new("git").current_dir(root).args(arguments).output();
    let said = said.map_err(|error| format!("git: {error}"))?;
    if said.status.success() {
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    } else {
        Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&said.stderr)))
    }
}

/// Words of the list in the documents, comments and texts of the repository.
pub(super) fn check_words(sources: &[Source]) -> Vec<Complaint> {
    let lines =
        sources.iter().flat_map(|source| source.text.lines().enumerate().map(move |line| (source, line)));
    lines
        .filter_map(|(source, (at, line))| Some(source.complaint(at + 1, word(&source.path, line)?)))
        .collect()
}

/// A word of the list in a line of a document, a comment or a text.
fn word(path: &Path, line: &str) -> Option<String> {
    let is_document = path.extension().is_some_and(|end| end == "md") && path != Path::new("CONTRIBUTING.md");
    let is_code = path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tidy/changes.rs");
    let prose = if is_document {
        line
    } else if is_code {
        // From the first quote or comment on.
        &line[line.find('"').into_iter().chain(line.find("//")).min()?..]
    } else {
        return None;
    };
    let text = format!(" {} ", prose.to_lowercase());
    let is_lag = LAG.iter().any(|word| text.contains(word));
    let found = WORDS.iter().find(|(words, _)| {
        !(is_lag && words.starts_with("behind"))
            && text.match_indices(words).any(|(from, _)| {
                let (before, after) = (&text[..from], &text[from + words.len()..]);
                !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
            })
    })?;
    Some(format!("\"{}\": {}", found.0, found.1))
}

/// Checks lines `COMMIT TITLE`.
fn check_titles(log: &str) -> Vec<Complaint> {
    let refused = log.lines().filter_map(|line| {
        let (commit, title) = line.split_once(' ')?;
        Some(Complaint { path: commit.into(), line: 1, what: format!("{:?}: {}", title, fault(title)?) })
    });
    refused.collect()
}

/// The reason why a title is not valid.
fn fault(title: &str) -> Option<String> {
    // A merge names the branch; its commits have their own titles.
    if title.starts_with("Merge branch ") {
        return None;
    }
    let columns = title.chars().count();
    if columns > TITLE_COLUMNS {
        return Some(format!("a title of {columns} columns: at most {TITLE_COLUMNS}"));
    }
    let valid = title.split_once(": ").filter(|(area, rest)| {
        let is_area = area.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-, ".contains(c));
        let first = rest.split(' ').next().unwrap_or_default();
        is_area && first.starts_with(|c: char| c.is_ascii_lowercase()) && !ARTICLES.contains(&first)
    });
    valid.is_none().then(|| "a title is `area: imperative`, such as `log: refuse empty batches`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Source, check_titles, check_words};

    #[test]
    fn misleading_words_are_found() {
        let found = |line: &str| {
            let source = Source { path: "crates/log/src/a.rs".into(), text: format!("//! A.\n{line}\n") };
            check_words(&[source]).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let comment = found("    // The offset behind the last record.");
        assert!(matches!(&comment[..], [only] if only.starts_with("crates/log/src/a.rs:2: \"behind the\"")));
        assert_eq!(found("    let behind_the = 1;"), Vec::<String>::new());
        assert_eq!(found("    // Lag: records behind the last record."), Vec::<String>::new());
        assert_eq!(found("    panic!(\"closed at once\");").len(), 1);
    }

    #[test]
    fn titles_have_an_area_and_an_imperative() {
        let found = |title: &str| check_titles(&format!("1a2b {title}\n")).len();
        assert_eq!(found("log: refuse empty batches"), 0);
        assert_eq!(found("log, wire: refuse empty batches"), 0);
        for title in ["Refuse empty batches", "log: the batches", "Log: refuse", "log: Refuse"] {
            assert_eq!(found(title), 1, "{title}");
        }
        assert_eq!(found(&format!("log: {}", "x".repeat(70))), 1);
    }
}
