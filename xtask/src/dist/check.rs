//! Long checks of the published files: the packages in a separate Debian, and the same bytes from
//! another directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::contents::Family;
use super::release::Release;
use super::{Options, Source, binary, contents, deb, debian, published, rpm};

/// Fails if the checks cannot run here, before the builds that take minutes.
pub(super) fn possible(root: &Path, options: &Options) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("dist --check boots a container: run it as root".to_owned());
    }
    if matches!(options.source, Source::Profile(_)) && !root.join(".git").exists() {
        return Err(
            "dist --check clones the sources for a second build: run it in a git repository".to_owned()
        );
    }
    Ok(())
}

/// Runs every check, one after the other. The packages are tried before the second build, which
/// takes longest.
pub(super) fn everything(
    root: &Path,
    releases: &[Release],
    options: &Options,
    out: &Path,
) -> Result<(), String> {
    // The container is one of this machine's architecture.
    for release in releases.iter().filter(|release| release.cross.is_none()) {
        packages(root, release, options, out)?;
    }
    let Source::Profile(profile) = &options.source else { return Ok(()) };
    reproducible(root, releases, profile, out)
}

/// Builds the same commit in another directory and compares all files.
fn reproducible(root: &Path, releases: &[Release], profile: &str, out: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("second build: {error}");
    let elsewhere = tempfile::tempdir_in(out.parent().unwrap_or(out)).map_err(failed)?;
    let (sources, target) = (elsewhere.path().join("sources"), elsewhere.path().join("build"));
    let mut clone = Command::new("git");
    contents::output(clone.args(["clone", "--quiet", "--local"]).arg(root).arg(&sources))?;
    let build = |release: &Release| binary::build(&sources, release, profile, &target);
    for (name, bytes) in published(&sources, releases, build)? {
        if contents::read(&out.join(&name))? != bytes {
            return Err(format!("{name}: another directory makes another file; is everything committed?"));
        }
        println!("{name}: the same from another directory");
    }
    Ok(())
}

/// Installs, upgrades, reboots and removes the packages in a separate Debian. The upgrade is from
/// the .deb of the options, or from one with a lower version; that of the .rpm always from the
/// latter.
fn packages(root: &Path, release: &Release, options: &Options, out: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("packages: {error}");
    let shared = tempfile::tempdir().map_err(failed)?;
    let into = |name: &str| shared.path().join(name);
    let older = Release { version: format!("{}~older", release.version), ..release.clone() };
    let binary = out.join(release.binary());
    match &options.previous {
        Some(previous) => drop(fs::copy(previous, into("old.deb")).map_err(failed)?),
        None => {
            let entries = contents::system(root, release, (&binary, Family::Debian))?;
            let archive = contents::read(&out.join(format!("{}.tar.gz", release.binary())))?;
            let package = deb::package(root, &older, &entries, &archive)?;
            fs::write(into("old.deb"), package).map_err(failed)?;
        }
    }
    fs::write(into("old.rpm"), rpm::package(root, &older, &binary)?).map_err(failed)?;
    fs::copy(out.join(release.deb()), into("new.deb")).map_err(failed)?;
    fs::copy(out.join(release.rpm()), into("new.rpm")).map_err(failed)?;
    fs::write(into("quick_start.py"), quick_start(root)?).map_err(failed)?;
    fs::copy(root.join("deploy/check-packages"), into("check-packages")).map_err(failed)?;
    debian::run(shared.path())
}

/// The Python program of the page of quick starts.
fn quick_start(root: &Path) -> Result<String, String> {
    let page = contents::read(&root.join("docs/operating/clients.md"))?;
    let page = String::from_utf8_lossy(&page);
    let program = page.split_once("\n```python\n").and_then(|(_, rest)| rest.split_once("\n```\n"));
    let (program, _) = program.ok_or("docs/operating/clients.md: no program in Python")?;
    Ok(format!("{program}\n"))
}
