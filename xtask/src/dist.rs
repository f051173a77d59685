//! `cargo xtask dist`: makes the published files by one command: static binaries, packages for
//! Debian and for systems with RPM, a container image, an archive, an SBOM, and checksums. The same
//! sources become the same bytes.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::deps;

mod binary;
mod check;
mod contents;
mod deb;
mod debian;
mod inspect;
mod oci;
mod rootfs;
mod rpm;
mod sbom;
mod tarball;
#[cfg(test)]
mod tests;

/// Target of the binary. The C library of this target, linked statically, resolves names by its own
/// code (docs/decisions/2026-11-23-static-binary.md).
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Maintainer field of the packages.
const MAINTAINER: &str = "Levada maintainers <maintainers@levada.invalid>";

const USAGE: &str = "cargo xtask dist [--profile NAME | --binary FILE] [--check [--previous FILE.deb]]";

/// Version, time and architecture of the published files.
#[derive(Clone)]
pub(crate) struct Release {
    version: String,
    /// Modification time of all files, in seconds since 1970: that of the last commit, or
    /// `SOURCE_DATE_EPOCH`.
    epoch: u64,
    architecture: String,
}

/// Origin of the binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A static build with this profile of Cargo.
    Profile(String),
    /// A binary that was built before.
    Built(PathBuf),
}

/// The command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    source: Source,
    /// True if the packages are also tried: installed, upgraded, removed.
    is_tried: bool,
    /// The .deb to upgrade from. Without it, the same binary in a package of a lower version.
    previous: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let usage = || format!("usage: {USAGE}");
        let mut options =
            Self { source: Source::Profile("dist".to_owned()), is_tried: false, previous: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(usage);
            match word.as_str() {
                "--profile" => options.source = Source::Profile(value()?.clone()),
                "--binary" => options.source = Source::Built(PathBuf::from(value()?)),
                "--previous" => options.previous = Some(PathBuf::from(value()?)),
                "--check" => options.is_tried = true,
                _ => return Err(usage()),
            }
        }
        if options.previous.is_some() && !options.is_tried { Err(usage()) } else { Ok(options) }
    }
}

impl Release {
    fn of(root: &Path) -> Result<Self, String> {
        let manifest = contents::read(&root.join("Cargo.toml"))?;
        let manifest: toml::Table = String::from_utf8(manifest)
            .map_err(|error| error.to_string())
            .and_then(|text| text.parse().map_err(|error| format!("Cargo.toml: {error}")))?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        Ok(Self {
            version: version.ok_or("Cargo.toml: workspace.package.version is missing")?.to_owned(),
            epoch: epoch(root)?,
            architecture: std::env::consts::ARCH.to_owned(),
        })
    }

    /// Debian's and Docker's name of the architecture.
    fn debian_architecture(&self) -> &str {
        match self.architecture.as_str() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }

    fn deb(&self) -> String {
        format!("levada_{}_{}.deb", self.version, self.debian_architecture())
    }

    fn rpm(&self) -> String {
        format!("levada-{}-1.{}.rpm", self.version, self.architecture)
    }

    fn image(&self) -> String {
        format!("levada-{}-{}.oci.tar", self.version, self.architecture)
    }

    /// Name of the binary alone.
    fn binary(&self) -> String {
        format!("levada-{}-{}", self.version, self.architecture)
    }

    /// Name of the laboratory's program alone.
    fn laboratory(&self) -> String {
        format!("levada-lab-{}-{}", self.version, self.architecture)
    }

    /// The time in the form of RFC 3339.
    fn date(&self) -> Result<String, String> {
        let format = format!("--date=@{}", self.epoch);
        let date = contents::output(std::process::Command::new("date").args([
            "--utc",
            &format,
            "+%Y-%m-%dT%H:%M:%SZ",
        ]))?;
        Ok(String::from_utf8_lossy(&date).trim().to_owned())
    }
}

fn epoch(root: &Path) -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(given) => given,
        Err(_) => {
            let mut git = std::process::Command::new("git");
            git.current_dir(root).args(["log", "-1", "--format=%ct"]);
            let said =
                contents::output(&mut git).map_err(|error| format!("{error}; set SOURCE_DATE_EPOCH"))?;
            String::from_utf8_lossy(&said).into_owned()
        }
    };
    text.trim().parse().map_err(|error| format!("SOURCE_DATE_EPOCH={}: {error}", text.trim()))
}

/// Makes the published files. Those of a fresh build are written to `dist-packages` in the target
/// directory; those of a given binary are for the checks of their contents alone.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let release = Release::of(root)?;
    let target = std::path::absolute(deps::target(root)).map_err(|error| format!("target: {error}"))?;
    let scratch = tempfile::tempdir().map_err(|error| format!("temporary directory: {error}"))?;
    let (binary, out) = match &options.source {
        Source::Profile(profile) => {
            let binary = binary::build(root, &release, profile, &target)?;
            (binary, target.join("dist-packages"))
        }
        Source::Built(built) => {
            let binary = stripped(built, scratch.path())?;
            // Cargo names the directory of a binary after its profile.
            let profile = built.parent().and_then(Path::file_name).unwrap_or_default();
            binary::keeps_ceiling(contents::read(&binary)?.len(), &profile.to_string_lossy())?;
            (binary, scratch.path().join("packages"))
        }
    };
    write(&out, &release, &artifacts(root, &release, &binary)?)?;
    if options.is_tried || matches!(options.source, Source::Built(_)) {
        deps::install_inspection()?;
        inspect::everything(root, &release, &out)?;
    }
    if options.is_tried { check::everything(root, &release, &options, &out) } else { Ok(()) }
}

/// Copies of the binary and of the laboratory beside it without symbols, as the packages have them;
/// the path of the binary.
fn stripped(binary: &Path, dir: &Path) -> Result<PathBuf, String> {
    let copy = dir.join("levada");
    for (from, to) in [(binary, &copy), (&contents::laboratory(binary), &contents::laboratory(&copy))] {
        contents::output(std::process::Command::new("strip").arg("-o").arg(to).arg(from))?;
    }
    Ok(copy)
}

/// Names and bytes of the published files, without the checksums.
fn artifacts(root: &Path, release: &Release, binary: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let Release { version, epoch, .. } = release;
    let entries = contents::system(root, binary, contents::Family::Debian)?;
    let archive = contents::gzip(&tarball::archive(&entries, *epoch, |_| tarball::ROOT)?);
    Ok(vec![
        (release.deb(), deb::package(root, release, &entries, &archive)?),
        (release.rpm(), rpm::package(root, release, binary)?),
        (release.image(), oci::image(root, release, binary)?),
        (format!("{}.tar.gz", release.binary()), archive),
        (release.binary(), contents::read(binary)?),
        (release.laboratory(), contents::read(&contents::laboratory(binary))?),
        (format!("levada-{version}.spdx.json"), sbom::document(root, release)?),
    ])
}

fn write(out: &Path, release: &Release, artifacts: &[(String, Vec<u8>)]) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    match fs::remove_dir_all(out) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(out, error)),
        _ => {}
    }
    fs::create_dir_all(out).map_err(|error| failed(out, error))?;
    let mut sums = String::new();
    for (name, bytes) in artifacts {
        let path = out.join(name);
        fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
        let _ = writeln!(sums, "{}  {name}", sha256(bytes));
        let is_program = *name == release.binary() || *name == release.laboratory();
        let mode = if is_program { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(|error| failed(&path, error))?;
        println!("{} ({} bytes)", path.display(), bytes.len());
    }
    let path: PathBuf = out.join("SHA256SUMS");
    fs::write(&path, sums).map_err(|error| failed(&path, error))
}

/// The checksum in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
