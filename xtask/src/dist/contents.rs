//! Contents of the packages: each file with its path, permissions and source.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::{Compression, GzBuilder};

use super::legal;
use super::release::Release;
use crate::markdown;

/// A file or directory of a package. Its owner is root, unless the package's scripts change that.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its installed path, without the leading slash.
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) content: Content,
    /// An upgrade keeps the administrator's changes of it.
    pub(crate) is_config: bool,
}

/// Kind of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Directory,
    File(Vec<u8>),
    /// A symbolic link with its target.
    Link(String),
}

/// A family of systems, which differ in the directories of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Debian,
    RedHat,
}

impl Entry {
    pub(crate) fn file(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, content: Content::File(bytes.into()), is_config: false }
    }

    pub(crate) fn directory(path: impl Into<String>, mode: u32) -> Self {
        Self { path: path.into(), mode, content: Content::Directory, is_config: false }
    }

    pub(super) fn link(path: impl Into<String>, target: &str) -> Self {
        Self { path: path.into(), mode: 0o777, content: Content::Link(target.to_owned()), is_config: false }
    }

    fn config(self) -> Self {
        Self { is_config: true, ..self }
    }

    /// Bytes of a file; a directory and a link have none.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Directory | Content::Link(_) => &[],
            Content::File(bytes) => bytes,
        }
    }
}

/// All entries of a package of this family, with directories before their contents.
pub(super) fn system(
    root: &Path,
    release: &Release,
    (binary, family): (&Path, Family),
) -> Result<Vec<Entry>, String> {
    let deploy = |name: &str| read(&root.join("deploy").join(name));
    let units = "usr/lib/systemd/system";
    let mut entries = vec![
        Entry::file("usr/bin/levada", 0o755, read(binary)?),
        Entry::file("usr/bin/levada-lab", 0o755, read(&beside(binary, LABORATORY))?),
        Entry::file("usr/sbin/levada-backup", 0o755, deploy("levada-backup")?),
        Entry::file("usr/sbin/levada-restore", 0o755, deploy("levada-restore")?),
        Entry::file(format!("{units}/levada.service"), 0o644, deploy("systemd/levada.service")?),
        Entry::file(format!("{units}/levada.socket"), 0o644, deploy("systemd/levada.socket")?),
        Entry::file("usr/lib/sysusers.d/levada.conf", 0o644, deploy("systemd/sysusers.conf")?),
        Entry::file("usr/lib/tmpfiles.d/levada.conf", 0o644, deploy("systemd/tmpfiles.conf")?),
        Entry::file("etc/levada/server.properties", 0o640, deploy("server.properties")?).config(),
        Entry::directory("var/lib/levada", 0o750),
    ];
    entries.extend(legal::entries(root, release, family)?);
    entries.extend(documents(root)?);
    entries.extend(completions(|| release.command(binary), family)?);
    entries.extend(manual(&mut release.command(binary))?);
    Ok(with_directories(entries))
}

/// The program of the laboratory.
pub(crate) const LABORATORY: &str = "levada-lab";
/// The entry of the image.
pub(crate) const ENTRY: &str = "levada-container";

/// The path of another program in the same directory: `levada-lab` beside `levada`.
pub(crate) fn beside(binary: &Path, program: &str) -> PathBuf {
    let name = binary.file_name().unwrap_or_default().to_string_lossy();
    binary.with_file_name(name.replacen("levada", program, 1))
}

/// Adds the directories of the entries, each once and before its contents.
pub(super) fn with_directories(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut missing = Vec::new();
    for entry in &entries {
        for parent in Path::new(&entry.path).ancestors().skip(1).filter(|one| !one.as_os_str().is_empty()) {
            missing.push(parent.to_string_lossy().into_owned());
        }
    }
    missing.sort();
    missing.dedup();
    missing.retain(|path| !entries.iter().any(|entry| entry.path == *path));
    entries.extend(missing.into_iter().map(|path| Entry::directory(path, 0o755)));
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    entries
}

/// Folder of the documents in packages.
pub(super) const DOCUMENTS: &str = "usr/share/doc/levada";

/// Documents and examples, at the same paths as in the sources. Links to other files of the sources
/// become plain text.
fn documents(root: &Path) -> Result<Vec<Entry>, String> {
    let pages = ["CHANGELOG.md", "README.md", "SECURITY.md", "docs/README.md", "docs/apis.md"];
    let mut paths: BTreeSet<PathBuf> = pages.map(PathBuf::from).into();
    let folders = ["docs/format", "docs/operating", "docs/pictures"];
    let examples = ["deploy/kubernetes", "deploy/monitoring", "deploy/systemd/cluster"];
    for folder in folders.into_iter().chain(examples) {
        let failed = |error: std::io::Error| format!("{folder}: {error}");
        for file in fs::read_dir(root.join(folder)).map_err(failed)? {
            paths.insert(Path::new(folder).join(file.map_err(failed)?.file_name()));
        }
    }
    let entry = |path: &PathBuf| {
        let bytes = read(&root.join(path))?;
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        let bytes = if is_page { linked(path, &bytes, &paths)?.into_bytes() } else { bytes };
        Ok(Entry::file(format!("{DOCUMENTS}/{}", path.display()), 0o644, bytes))
    };
    paths.iter().map(entry).collect()
}

/// A page with only the links that lead to one of these files, to a folder of them, or elsewhere.
fn linked(page: &Path, bytes: &[u8], files: &BTreeSet<PathBuf>) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("{}: {error}", page.display()))?;
    Ok(markdown::only(text, |target| {
        let leads = |to: PathBuf| files.iter().any(|file| file.starts_with(&to));
        markdown::is_remote(target) || markdown::file(page, target).is_some_and(leads)
    }))
}

fn completions(program: impl Fn() -> Command, family: Family) -> Result<Vec<Entry>, String> {
    let (zsh, fish) = match family {
        Family::Debian => ("vendor-completions", "vendor_completions.d"),
        Family::RedHat => ("site-functions", "vendor_completions.d"),
    };
    let places = [
        ("bash", "usr/share/bash-completion/completions/levada".to_owned()),
        ("zsh", format!("usr/share/zsh/{zsh}/_levada")),
        ("fish", format!("usr/share/fish/{fish}/levada.fish")),
    ];
    let script = |(shell, place): (&str, String)| {
        Ok(Entry::file(place, 0o644, output(program().args(["completions", shell]))?))
    };
    places.into_iter().map(script).collect()
}

fn manual(program: &mut Command) -> Result<Vec<Entry>, String> {
    let failed = |error: std::io::Error| format!("manual pages: {error}");
    let dir = tempfile::tempdir().map_err(failed)?;
    output(program.args(["man", "--dir"]).arg(dir.path()))?;
    let mut pages = Vec::new();
    for page in fs::read_dir(dir.path()).map_err(failed)? {
        let page = page.map_err(failed)?;
        let name = page.file_name().to_string_lossy().into_owned();
        let section = name.rsplit('.').next().unwrap_or("1");
        let place = format!("usr/share/man/man{section}/{name}.gz");
        pages.push(Entry::file(place, 0o644, gzip(&read(&page.path())?)));
    }
    Ok(pages)
}

/// Compressed without a name and a date, so that the same bytes become the same file.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let done = writer.write_all(bytes).and_then(|()| writer.finish());
    done.expect("memory takes all bytes")
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Standard output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}
