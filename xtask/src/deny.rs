//! Rules for linked code: licences, sources and duplicate versions of all dependencies, as
//! `deny.toml` has them.
//!
//! An installed cargo-deny does all that and also checks advisories. Building it takes longer than
//! all other checks, so it is not installed for this; the rules that need no database are checked
//! here from the same file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use toml::Table;

#[cfg(test)]
mod tests;

/// Platforms of the binary.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Checks the dependencies of the workspace.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let there =
        Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) {
        let status = Command::new("cargo-deny").current_dir(root).args(["--all-features", "check"]).status();
        let status = status.map_err(|error| format!("cargo-deny: {error}"))?;
        return if status.success() { Ok(()) } else { Err(status.to_string()) };
    }
    eprintln!("cargo-deny is not installed: advisories are not checked (cargo install cargo-deny)");
    let path = root.join("deny.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rules: Table = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let asked = ["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET];
    let answer = Command::new(cargo).current_dir(root).args(asked).stderr(Stdio::inherit()).output();
    let answer = answer.map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value =
        serde_json::from_slice(&answer.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let complaints = check(&rules, &metadata);
    complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
    match complaints.len() {
        0 => Ok(()),
        count => Err(format!("{count} dependencies violate deny.toml")),
    }
}

/// Violations among the packages that are linked.
fn check(rules: &Table, metadata: &Value) -> Vec<String> {
    let list = |section: &str, key: &str| -> BTreeSet<String> {
        let found = rules.get(section).and_then(|section| section.get(key)).and_then(toml::Value::as_array);
        let name = |one: &toml::Value| one.as_str().or_else(|| one.get("crate")?.as_str()).map(str::to_owned);
        found.into_iter().flatten().filter_map(name).collect()
    };
    let (licences, registries) = (list("licenses", "allow"), list("sources", "allow-registry"));
    let mut skipped = list("bans", "skip");
    let mut complaints = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        versions.entry(name).or_default().push(version);
        let licence = text("license");
        if !is_allowed(licence, &|one| licences.contains(one)) {
            complaints.push(format!("{name} {version}: its licence {licence:?} is not in [licenses] allow"));
        }
        let source = text("source");
        if !source.is_empty()
            && !source.strip_prefix("registry+").is_some_and(|registry| registries.contains(registry))
        {
            complaints
                .push(format!("{name} {version}: its source {source} is not in [sources] allow-registry"));
        }
    }
    for (name, versions) in &versions {
        let left: Vec<_> =
            versions.iter().filter(|version| !skipped.contains(&format!("{name}@{version}"))).collect();
        if left.len() > 1 {
            complaints
                .push(format!("{name} is there in the versions {left:?}; give a reason in [bans] skip"));
        }
    }
    skipped.retain(|skip| {
        let found = skip.split_once('@').and_then(|(name, version)| Some((versions.get(name)?, version)));
        !found.is_some_and(|(versions, version)| versions.len() > 1 && versions.contains(&version))
    });
    complaints.extend(
        skipped.iter().map(|skip| format!("{skip} is not a duplicate any more: take it out of [bans] skip")),
    );
    complaints
}

/// True if an SPDX expression can be satisfied with allowed licences only. A slash is the former
/// notation of OR.
fn is_allowed(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let holds = alternatives(&mut rest, allowed);
    holds && rest.is_empty()
}

fn alternatives(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut holds = together(rest, allowed);
    while let Some(("OR", after)) = rest.split_first().map(|(first, after)| (*first, after)) {
        *rest = after;
        holds |= together(rest, allowed);
    }
    holds
}

fn together(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut holds = one(rest, allowed);
    while let Some(("AND", after)) = rest.split_first().map(|(first, after)| (*first, after)) {
        *rest = after;
        holds &= one(rest, allowed);
    }
    holds
}

fn one(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    let Some((first, after)) = rest.split_first() else { return false };
    *rest = after;
    if *first == "(" {
        let holds = alternatives(rest, allowed);
        let closed = rest.split_first().filter(|(next, _)| **next == ")");
        return closed.is_some_and(|(_, after)| {
            *rest = after;
            holds
        });
    }
    // With an exception a licence allows more than without.
    if let ["WITH", _, after @ ..] = *rest {
        *rest = after;
    }
    allowed(first)
}
