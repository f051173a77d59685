//! The release notes: the section of the changelog for a version, as a page of its own.

use std::path::Path;

use super::contents;
use super::release::Release;
use crate::markdown;

/// The page of a release, from the changelog of the sources.
pub(super) fn page(root: &Path, release: &Release) -> Result<String, String> {
    let changelog = contents::read(&root.join("CHANGELOG.md"))?;
    of(&String::from_utf8_lossy(&changelog), &release.version)
}

/// The page of a version. Relative links become plain text: the page has no documents beside it.
pub(super) fn of(changelog: &str, version: &str) -> Result<String, String> {
    let heading = format!("## [{version}]");
    let section = changelog.split_once(&format!("\n{heading}")).map(|(_, rest)| rest);
    let section = section.and_then(|rest| rest.split_once('\n')).map_or("", |(_, rest)| rest);
    let changes = section.split("\n## ").next().unwrap_or_default().trim();
    if changes.is_empty() {
        return Err(format!("CHANGELOG.md: no changes below `{heading}`; write the release notes there"));
    }
    Ok(format!(
        "# Levada {version}\n\n{}\n\n### Files\n\n\
         `sha256sum --check SHA256SUMS` verifies the files. Packages and archives have the documents in\n\
         `/{}`, with the installation in `docs/operating/installation.md`.\n",
        markdown::only(changes, markdown::is_remote),
        contents::DOCUMENTS
    ))
}
