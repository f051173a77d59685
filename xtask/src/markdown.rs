//! Links of Markdown documents.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// A link `[label](target)` outside code blocks.
pub(crate) struct Link<'a> {
    /// Number of the line with the target, from 1.
    pub(crate) line: usize,
    pub(crate) label: &'a str,
    pub(crate) target: &'a str,
    /// Bytes of the link, with the `!` of a picture.
    pub(crate) range: Range<usize>,
}

/// The links of a document, in the order of their targets.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    let (mut in_code, mut start) = (false, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code {
            let ends = line.match_indices("](").map(|(at, _)| start + at);
            links.extend(ends.filter_map(|end| link(text, index + 1, end)));
        }
        start += line.len();
    }
    links
}

/// The link whose label ends at a byte. The label can begin in an earlier line.
fn link(text: &str, line: usize, end: usize) -> Option<Link<'_>> {
    let rest = text.get(end + 2..)?.lines().next()?;
    let (target, _) = rest.split_once(')')?;
    let mut depth = 0;
    let (before, _) = text[..end].char_indices().rev().find(|(_, letter)| {
        match letter {
            '[' => depth -= 1,
            ']' => depth += 1,
            _ => {}
        }
        depth < 0
    })?;
    let start = if text[..before].ends_with('!') { before - 1 } else { before };
    let range = start..end + 2 + target.len() + 1;
    Some(Link { line, label: &text[before + 1..end], target, range })
}

/// The document with the labels of other links than `keeps` accepts as plain text.
pub(crate) fn only(text: &str, keeps: impl Fn(&str) -> bool) -> String {
    let mut text = text.to_owned();
    // A label can contain a picture: each replacement can move the other links.
    while let Some(link) = links(&text).into_iter().find(|link| !keeps(link.target)) {
        let (range, label) = (link.range, link.label.to_owned());
        text.replace_range(range, &label);
    }
    text
}

/// True if the target is on another host.
pub(crate) fn is_remote(target: &str) -> bool {
    target.contains("://")
}

/// Path of the file to which a link of a page leads: without a file in the target, the page itself.
/// `None` if the path leaves the repository.
pub(crate) fn file(page: &Path, target: &str) -> Option<PathBuf> {
    match target.split('#').next() {
        Some("") | None => Some(page.to_owned()),
        Some(file) => flat(&page.parent()?.join(file)),
    }
}

/// Resolves `..` without access to the file system. `None`: the path leaves the repository.
fn flat(path: &Path) -> Option<PathBuf> {
    let mut flat = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => flat.pop().then_some(())?,
            Component::CurDir => {}
            other => flat.push(other),
        }
    }
    Some(flat)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{file, links, only};

    const TEXT: &str = "See [the\nguide](docs/guide.md#start) and ![a [fine] map](map.svg).\n\
        ```sh\nls [a](b)\n```\n[![x](x.svg)](https://docs.rs) and `](`.\n";

    #[test]
    fn links_have_labels_lines_and_targets() {
        let found: Vec<_> = links(TEXT).iter().map(|link| (link.line, link.label, link.target)).collect();
        let expected = [
            (2, "the\nguide", "docs/guide.md#start"),
            (2, "a [fine] map", "map.svg"),
            (6, "x", "x.svg"),
            (6, "![x](x.svg)", "https://docs.rs"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn other_links_become_plain_text() {
        let kept = only(TEXT, |target| target == "map.svg");
        let expected = "See the\nguide and ![a [fine] map](map.svg).\n\
            ```sh\nls [a](b)\n```\nx and `](`.\n";
        assert_eq!(kept, expected);
        assert_eq!(only(TEXT, |_| true), TEXT);
    }

    #[test]
    fn link_out_of_the_repository_has_no_file() {
        let page = Path::new("docs/operating/tuning.md");
        assert_eq!(file(page, "../apis.md#top").as_deref(), Some(Path::new("docs/apis.md")));
        assert_eq!(file(page, "../../../x"), None);
        assert_eq!(file(page, "#top").as_deref(), Some(page));
    }
}
