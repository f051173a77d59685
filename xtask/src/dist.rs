//! `cargo xtask dist`: builds the published files by one command: static binaries, packages for
//! Debian and for systems with RPM, a container image, an archive, an SBOM, release notes, and
//! checksums. The same sources yield the same bytes.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use self::contents::Entry;
use self::release::Release;
use crate::deps;

mod binary;
mod check;
mod contents;
mod deb;
mod debian;
mod foreign;
mod image;
mod inspect;
mod legal;
mod notes;
mod oci;
mod release;
mod rootfs;
mod rpm;
mod sbom;
mod tarball;
#[cfg(test)]
mod tests;

/// Targets of the binary. The C library of these targets, linked statically, resolves names by its
/// own code (docs/decisions/2026-11-23-static-binary.md).
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Maintainer field of the packages.
const MAINTAINER: &str = "Levada maintainers <maintainers@levada.invalid>";

const USAGE: &str = "cargo xtask dist [--profile NAME | --binary FILE] [--target TARGET]... [--check [--previous FILE.deb]], or \
                     --binary FILE --starts N";

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
    /// Targets of the binaries, each of [`TARGETS`].
    targets: Vec<&'static str>,
    /// Starts of the image by each container of Testcontainers for Java. Without packages.
    starts: Option<u32>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let usage = || format!("usage: {USAGE}");
        let source = Source::Profile("dist".to_owned());
        let mut options = Self { source, is_tried: false, previous: None, targets: Vec::new(), starts: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(usage);
            match word.as_str() {
                "--profile" => options.source = Source::Profile(value()?.clone()),
                "--binary" => options.source = Source::Built(PathBuf::from(value()?)),
                "--previous" => options.previous = Some(PathBuf::from(value()?)),
                "--check" => options.is_tried = true,
                "--starts" => {
                    let starts = value()?.parse().ok().filter(|starts| *starts > 0);
                    options.starts = Some(starts.ok_or("--starts: expected a number from 1 on")?);
                }
                "--target" => {
                    let name = value()?;
                    let target = TARGETS.into_iter().find(|target| target == name);
                    let unknown = || format!("--target {name}: expected {}", TARGETS.join(" or "));
                    let target = target.ok_or_else(unknown)?;
                    if !options.targets.contains(&target) {
                        options.targets.push(target);
                    }
                }
                _ => return Err(usage()),
            }
        }
        let native = release::native();
        if options.targets.is_empty() {
            options.targets.push(native);
        }
        if options.targets != [native] && matches!(options.source, Source::Built(_)) {
            return Err(format!("--binary is for {native}, without --target"));
        }
        let is_built = matches!(options.source, Source::Built(_));
        let is_lone = options.previous.is_some() && !options.is_tried;
        let has_no_image = options.starts.is_some() && (options.is_tried || !is_built);
        if is_lone || has_no_image { Err(usage()) } else { Ok(options) }
    }
}

/// Builds the published files. Those of a fresh build are written to `dist-packages` in the target
/// directory; those of a given binary are only for the checks of their contents, and are not kept.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    if let (Source::Built(built), Some(starts)) = (&options.source, options.starts) {
        return rootfs::starts(root, built, starts);
    }
    if options.is_tried {
        check::possible(root, &options)?;
    }
    let target = std::path::absolute(deps::target(root)).map_err(|error| format!("target: {error}"))?;
    let scratch = tempfile::tempdir().map_err(|error| format!("temporary directory: {error}"))?;
    let is_fresh = matches!(options.source, Source::Profile(_));
    let out = if is_fresh { target.join("dist-packages") } else { scratch.path().join("packages") };
    let mut releases = Vec::new();
    for name in &options.targets {
        releases.push(Release::of(root, name)?);
    }
    let files = published(root, &releases, |release| match &options.source {
        Source::Profile(profile) => binary::build(root, release, profile, &target),
        Source::Built(built) => {
            let binary = stripped(built, scratch.path())?;
            // Cargo names the directory of a binary after its profile.
            let profile = built.parent().and_then(Path::file_name).unwrap_or_default();
            let bytes = contents::read(&binary)?;
            binary::keeps_ceiling(bytes.len(), &profile.to_string_lossy())?;
            if let Some(note) = binary::note(built, &bytes) {
                println!("{note}");
            }
            Ok(binary)
        }
    })?;
    write(&out, &files)?;
    print!("{}", listed(Some(&*out).filter(|_| is_fresh), &files));
    if options.is_tried || !is_fresh {
        deps::install_inspection()?;
    }
    for release in &releases {
        if options.is_tried || !is_fresh {
            inspect::everything(root, release, &out)?;
        }
        if options.is_tried {
            foreign::tried(root, release, &out)?;
        }
    }
    if options.is_tried && releases.len() > 1 {
        inspect::images(&releases, &out.join(releases[0].images()))?;
    }
    if options.is_tried { check::everything(root, &releases, &options, &out) } else { Ok(()) }
}

/// Names and bytes of the published files of all architectures, without the checksums. `binary`
/// builds the binary of an architecture.
fn published(
    root: &Path,
    releases: &[Release],
    binary: impl Fn(&Release) -> Result<PathBuf, String>,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let (mut files, mut images) = (Vec::new(), Vec::new());
    for release in releases {
        let binary = binary(release)?;
        files.extend(artifacts(root, release, &binary)?);
        images.push(oci::Image::of(root, release, &binary)?);
    }
    let Some(release) = releases.first() else { return Ok(files) };
    for (release, image) in releases.iter().zip(&images) {
        files.push((release.image(), oci::archive(release, std::slice::from_ref(image))?));
    }
    if images.len() > 1 {
        files.push((release.images(), oci::archive(release, &images)?));
    }
    files.push((release.sbom(), sbom::document(root, releases)?));
    files.push((release.notes(), notes::page(root, release)?.into_bytes()));
    Ok(files)
}

/// Copies of the binary and its accompanying programs without symbols, as in packages and the
/// image; returns the path of the binary.
fn stripped(binary: &Path, dir: &Path) -> Result<PathBuf, String> {
    let copy = dir.join("levada");
    for name in ["levada", contents::LABORATORY, contents::ENTRY] {
        let (from, to) = (contents::beside(binary, name), contents::beside(&copy, name));
        contents::output(std::process::Command::new("strip").arg("-o").arg(to).arg(from))?;
    }
    Ok(copy)
}

/// Names and bytes of the packages and programs of one architecture.
fn artifacts(root: &Path, release: &Release, binary: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let entries = contents::system(root, release, (binary, contents::Family::Debian))?;
    let archived = |entries: &[Entry]| {
        Ok::<_, String>(contents::gzip(&tarball::archive(entries, release.epoch, |_| tarball::ROOT)?))
    };
    let (debian, anywhere) = (archived(&entries)?, archived(&legal::with_text(root, &entries)?)?);
    Ok(vec![
        (release.deb(), deb::package(root, release, &entries, &debian)?),
        (release.rpm(), rpm::package(root, release, binary)?),
        (format!("{}.tar.gz", release.binary()), anywhere),
        (release.binary(), contents::read(binary)?),
        (release.laboratory(), contents::read(&contents::beside(binary, contents::LABORATORY))?),
    ])
}

fn write(out: &Path, artifacts: &[(String, Vec<u8>)]) -> Result<(), String> {
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
        // Other files have an extension after the architecture.
        let is_program = TARGETS.iter().any(|target| name.ends_with(release::architecture(target)));
        let mode = if is_program { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(|error| failed(&path, error))?;
    }
    let path: PathBuf = out.join("SHA256SUMS");
    fs::write(&path, sums).map_err(|error| failed(&path, error))
}

/// The files with their sizes, by their paths in a directory that is kept, otherwise by their
/// names.
fn listed(out: Option<&Path>, artifacts: &[(String, Vec<u8>)]) -> String {
    artifacts.iter().fold(String::new(), |mut text, (name, bytes)| {
        let path = out.map_or_else(|| PathBuf::from(name), |out| out.join(name));
        let _ = writeln!(text, "{} ({} bytes)", path.display(), bytes.len());
        text
    })
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
