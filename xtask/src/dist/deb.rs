//! The Debian package: an `ar` archive of a version number, the control files and the contents
//! (deb(5)).

use std::fmt::Write as _;
use std::path::Path;

use md5::{Digest, Md5};

use super::contents::{self, Content, Entry};
use super::release::Release;
use super::tarball::{self, ROOT};

const DESCRIPTION: &str = "\
Kafka-compatible log broker in one binary
 Levada serves unmodified clients of Apache Kafka. Its data directory has Kafka's
 own formats, and records travel from disk to network without a copy into user
 memory where the kernel can do that.";

/// The package's bytes: control files for these entries, and the archive that holds them.
pub(crate) fn package(
    root: &Path,
    release: &Release,
    entries: &[Entry],
    archive: &[u8],
) -> Result<Vec<u8>, String> {
    let control = control_files(root, release, entries)?;
    let control = contents::gzip(&tarball::archive(&control, release.epoch, |_| ROOT)?);
    let version: &[u8] = b"2.0\n";
    let members = [("debian-binary", version), ("control.tar.gz", &control), ("data.tar.gz", archive)];
    Ok(ar(&members, release.epoch))
}

fn control_files(root: &Path, release: &Release, entries: &[Entry]) -> Result<Vec<Entry>, String> {
    let size: usize = entries.iter().map(|entry| entry.bytes().len().div_ceil(1024)).sum();
    let control = format!(
        "Package: levada\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {size}\n\
         Depends: passwd\nSection: net\nPriority: optional\nDescription: {DESCRIPTION}\n",
        release.version,
        release.debian_architecture(),
        super::MAINTAINER,
    );
    let configs: String =
        entries.iter().filter(|entry| entry.is_config).fold(String::new(), |mut all, entry| {
            let _ = writeln!(all, "/{}", entry.path);
            all
        });
    let sums: String = files(entries).fold(String::new(), |mut all, entry| {
        let _ = writeln!(all, "{}  {}", super::hexadecimal(&Md5::digest(entry.bytes())), entry.path);
        all
    });
    let mut files = vec![
        Entry::file("conffiles", 0o644, configs),
        Entry::file("control", 0o644, control),
        Entry::file("md5sums", 0o644, sums),
    ];
    for script in ["postinst", "postrm", "prerm"] {
        files.push(Entry::file(script, 0o755, contents::read(&root.join("deploy/deb").join(script))?));
    }
    Ok(files)
}

fn files(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
    entries.iter().filter(|entry| matches!(entry.content, Content::File(_)))
}

/// An archive in the common format of `ar`, which dpkg reads.
fn ar(members: &[(&str, &[u8])], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header = format!("{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(bytes);
        // Members begin at even places.
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}
