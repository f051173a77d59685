//! The package for systems with RPM.

use std::path::Path;

use rpm::{BuildConfig, CompressionType, FileOptions, PackageBuilder};

use super::contents::{self, Content, DOCUMENTS, Entry, Family};
use super::release::Release;

/// Directories of the package itself, with those below the documents; the others are the system's.
const OWN: [&str; 4] = ["etc/levada", DOCUMENTS, LICENCES, "var/lib/levada"];
/// Directory of the licence.
const LICENCES: &str = "usr/share/licenses/levada";

/// The package's bytes.
pub(crate) fn package(root: &Path, release: &Release, binary: &Path) -> Result<Vec<u8>, String> {
    let entries = contents::system(root, release, (binary, Family::RedHat))?;
    let epoch = u32::try_from(release.epoch).map_err(|error| format!("SOURCE_DATE_EPOCH: {error}"))?;
    let script = |name: &str| {
        let bytes = contents::read(&root.join("deploy/rpm").join(name))?;
        String::from_utf8(bytes).map_err(|error| format!("deploy/rpm/{name}: {error}"))
    };
    let (summary, licence) = ("Kafka-compatible log broker in one binary", "Apache-2.0");
    let mut builder =
        PackageBuilder::new("levada", &release.version, licence, &release.architecture, summary);
    builder
        .using_config(BuildConfig::v4().compression(CompressionType::Gzip).source_date(epoch))
        .release("1")
        .description(
            "Levada serves unmodified clients of Apache Kafka. Its data directory has Kafka's own formats.",
        )
        .packager(super::MAINTAINER)
        .build_host("localhost")
        .pre_install_script(script("pre")?)
        .post_install_script(script("post")?)
        .pre_uninstall_script(script("preun")?)
        .post_uninstall_script(script("postun")?);
    for entry in &entries {
        add(&mut builder, entry).map_err(|error| format!("{}: {error}", entry.path))?;
    }
    let mut bytes = Vec::new();
    let package = builder.build().map_err(|error| format!("rpm: {error}"))?;
    package.write(&mut bytes).map_err(|error| format!("rpm: {error}"))?;
    Ok(bytes)
}

fn add(builder: &mut PackageBuilder, entry: &Entry) -> Result<(), rpm::Error> {
    let place = format!("/{}", entry.path);
    let mode = u16::try_from(entry.mode).expect("rights have 12 bits");
    let group = if entry.path.starts_with("etc/levada") { "levada" } else { "root" };
    match &entry.content {
        Content::Directory if OWN.contains(&entry.path.as_str()) || entry.path.starts_with(DOCUMENTS) => {
            let is_data = entry.path.starts_with("var");
            let (user, group) = if is_data { ("levada", "levada") } else { ("root", group) };
            let mode = if entry.path.starts_with("etc") { 0o750 } else { mode };
            builder.with_dir_entry(FileOptions::dir(place).permissions(mode).user(user).group(group))?;
        }
        Content::Directory => {}
        Content::Link(target) => {
            builder.with_symlink(FileOptions::symlink(place, target.as_str()))?;
        }
        Content::File(bytes) => {
            let options = FileOptions::new(place).permissions(mode).user("root").group(group);
            let options = if entry.is_config { options.config().noreplace() } else { options };
            let options = if entry.path.starts_with(LICENCES) { options.license() } else { options };
            builder.with_file_contents(bytes.clone(), options)?;
        }
    }
    Ok(())
}
