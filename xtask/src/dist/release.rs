//! Version, commit, time and architecture of the published files, and their names.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{TARGETS, contents};
use crate::deps;

/// Version, time and architecture of the published files.
#[derive(Clone)]
pub(super) struct Release {
    pub(super) version: String,
    /// Modification time of all files, in seconds since 1970: that of the last commit, or
    /// `SOURCE_DATE_EPOCH`.
    pub(super) epoch: u64,
    pub(super) architecture: String,
    pub(super) target: &'static str,
    /// Hash of the commit; of a tree with changes, followed by `-changed`.
    pub(super) commit: String,
    /// Directory of the compiler, if the architecture is not that of this machine.
    pub(super) cross: Option<PathBuf>,
}

/// Origin of an archive of the sources, in which git has put commit and time in place of the
/// formats (`.gitattributes`).
const ARCHIVED: &str = include_str!("archived");

impl Release {
    pub(super) fn of(root: &Path, target: &'static str) -> Result<Self, String> {
        let manifest = contents::read(&root.join("Cargo.toml"))?;
        let manifest: toml::Table = String::from_utf8(manifest)
            .map_err(|error| error.to_string())
            .and_then(|text| text.parse().map_err(|error| format!("Cargo.toml: {error}")))?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let (commit, epoch) = origin(root)?;
        let architecture = architecture(target).to_owned();
        let cross = match (std::env::consts::ARCH, architecture.as_str()) {
            (here, there) if here == there => None,
            ("x86_64", "aarch64") => Some(deps::install_cross()?),
            (here, _) => return Err(format!("--target {target}: there is no compiler for it on {here}")),
        };
        Ok(Self {
            version: version.ok_or("Cargo.toml: workspace.package.version is missing")?.to_owned(),
            epoch,
            target,
            commit,
            cross,
            architecture,
        })
    }

    /// Debian's and Docker's name of the architecture.
    pub(super) fn debian_architecture(&self) -> &str {
        match self.architecture.as_str() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }

    pub(super) fn deb(&self) -> String {
        format!("levada_{}_{}.deb", self.version, self.debian_architecture())
    }

    pub(super) fn rpm(&self) -> String {
        format!("levada-{}-1.{}.rpm", self.version, self.architecture)
    }

    pub(super) fn image(&self) -> String {
        format!("levada-{}-{}.oci.tar", self.version, self.architecture)
    }

    /// Name of the image for several architectures.
    pub(super) fn images(&self) -> String {
        format!("levada-{}.oci.tar", self.version)
    }

    pub(super) fn sbom(&self) -> String {
        format!("levada-{}.spdx.json", self.version)
    }

    pub(super) fn notes(&self) -> String {
        format!("levada-{}.notes.md", self.version)
    }

    /// Name of the binary as a separate file.
    pub(super) fn binary(&self) -> String {
        format!("levada-{}-{}", self.version, self.architecture)
    }

    /// Name of the laboratory's program as a separate file.
    pub(super) fn laboratory(&self) -> String {
        format!("levada-lab-{}-{}", self.version, self.architecture)
    }

    /// A command that runs a binary of this architecture.
    pub(super) fn command(&self, binary: &Path) -> Command {
        match &self.cross {
            None => Command::new(binary),
            Some(cross) => {
                let mut command = Command::new(cross.join("qemu"));
                command.arg(binary);
                command
            }
        }
    }

    /// The time in the form of RFC 3339.
    pub(super) fn date(&self) -> Result<String, String> {
        self.formatted("+%Y-%m-%dT%H:%M:%SZ")
    }

    /// The day, such as 2026-11-30.
    pub(super) fn day(&self) -> Result<String, String> {
        self.formatted("+%Y-%m-%d")
    }

    /// The time in the format of mail, as in Debian's changelogs.
    pub(super) fn mail_date(&self) -> Result<String, String> {
        self.formatted("+%a, %d %b %Y %H:%M:%S +0000")
    }

    fn formatted(&self, format: &str) -> Result<String, String> {
        let time = format!("--date=@{}", self.epoch);
        let date = contents::output(Command::new("date").env("LC_ALL", "C").args(["--utc", &time, format]))?;
        Ok(String::from_utf8_lossy(&date).trim().to_owned())
    }
}

/// The target of this machine.
pub(super) fn native() -> &'static str {
    let is_here = |target: &&str| architecture(target) == std::env::consts::ARCH;
    TARGETS.into_iter().find(is_here).unwrap_or(TARGETS[0])
}

/// The part of a target that names the architecture.
pub(super) fn architecture(target: &str) -> &str {
    target.split('-').next().unwrap_or(target)
}

/// Commit and time of the sources: those of git, otherwise those of an archive that git made.
/// `SOURCE_DATE_EPOCH` overrides the time.
fn origin(root: &Path) -> Result<(String, u64), String> {
    let git = |words: &[&str]| {
        let said = contents::output(Command::new("git").current_dir(root).args(words))?;
        Ok::<_, String>(String::from_utf8_lossy(&said).trim().to_owned())
    };
    // A repository around an archive has another commit.
    let of_git =
        if root.join(".git").exists() { git(&["log", "-1", "--format=%H %ct"]) } else { Err(String::new()) };
    let (commit, time) = match of_git {
        Ok(text) => {
            let (commit, time) = text.split_once(' ').ok_or("git log: no time of the commit")?;
            let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
            (format!("{commit}{}", if is_changed { "-changed" } else { "" }), Some(time.to_owned()))
        }
        Err(_) => match archived(ARCHIVED) {
            Some((commit, time)) => (commit.to_owned(), Some(time.to_owned())),
            None => ("unknown".to_owned(), None),
        },
    };
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let text = given.or(time).ok_or("neither git nor an archive of git: set SOURCE_DATE_EPOCH")?;
    let epoch = text.trim().parse().map_err(|error| format!("SOURCE_DATE_EPOCH={}: {error}", text.trim()))?;
    Ok((commit, epoch))
}

/// Commit and time in a file that git has filled in; `None` in a working tree.
pub(super) fn archived(text: &str) -> Option<(&str, &str)> {
    text.trim().split_once(' ').filter(|(commit, _)| commit.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
