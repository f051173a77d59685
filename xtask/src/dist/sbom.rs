//! The list of linked packages (SPDX 2.3, JSON), from Cargo's metadata of the binary's
//! dependencies.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::release::Release;
use crate::suite::cargo;

/// Bytes of the document for all architectures: it names each package that one of them links.
pub(crate) fn document(root: &Path, releases: &[Release]) -> Result<Vec<u8>, String> {
    let release = releases.first().ok_or("SBOM: no architecture")?;
    let mut metadata = cargo(root, &["metadata", "--locked", "--format-version", "1"]);
    metadata.args(releases.iter().flat_map(|release| ["--filter-platform", release.target]));
    let answer = super::contents::output(&mut metadata)?;
    let metadata: Value =
        serde_json::from_slice(&answer).map_err(|error| format!("cargo metadata: {error}"))?;
    let linked = linked(&metadata)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages = packages.filter(|package| linked.contains(text(package, "id")));
    let packages: Vec<Value> = packages.map(|package| described(package, &release.commit)).collect();
    let describes = PROGRAMS.iter().map(|program| {
        json!({
            "spdxElementId": "SPDXRef-DOCUMENT",
            "relationshipType": "DESCRIBES",
            "relatedSpdxElement": reference(program, &release.version),
        })
    });
    let others = packages.iter().filter(|package| PROGRAMS.iter().all(|name| package["name"] != *name));
    let dependencies = others.map(|package| {
        json!({
            "spdxElementId": reference("levada", &release.version),
            "relationshipType": "STATIC_LINK",
            "relatedSpdxElement": package["SPDXID"],
        })
    });
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("levada-{}", release.version),
        "documentNamespace": format!("urn:levada:spdx:{}:{}:{}", release.version, release.commit, release.epoch),
        "creationInfo": { "created": release.date()?, "creators": ["Tool: cargo-xtask-dist"] },
        "relationships": describes.chain(dependencies).collect::<Vec<_>>(),
        "packages": packages,
    });
    let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| format!("SBOM: {error}"))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The packages of the programs that are installed.
const PROGRAMS: [&str; 3] = ["levada", "levada-container", "levada-lab"];

/// Ids of the packages of which the programs are made. Packages that only builds or tests need are
/// omitted.
fn linked(metadata: &Value) -> Result<BTreeSet<&str>, String> {
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata: no graph")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let levada = packages
        .filter(|package| PROGRAMS.iter().any(|name| package["name"] == *name))
        .map(|package| text(package, "id"));
    let mut waiting: Vec<&str> = levada.collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !linked.insert(id) {
            continue;
        }
        let Some(node) = nodes.iter().find(|node| text(node, "id") == id) else { continue };
        let is_linked = |dependency: &&Value| {
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            kinds.any(|kind| kind["kind"].is_null())
        };
        let dependencies = node["deps"].as_array().into_iter().flatten().filter(is_linked);
        waiting.extend(dependencies.map(|dependency| text(dependency, "pkg")));
    }
    Ok(linked)
}

/// A package. Those of these sources name the commit; those of a registry, their place there.
fn described(package: &Value, commit: &str) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let licence = package["license"].as_str().map(|licence| licence.replace('/', " OR "));
    let mut described = json!({
        "SPDXID": reference(name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence.as_deref().unwrap_or("NOASSERTION"),
        "copyrightText": "NOASSERTION",
    });
    if package["source"].is_string() {
        let locator = format!("pkg:cargo/{name}@{version}");
        described["externalRefs"] = json!([{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": locator,
        }]);
    } else {
        described["sourceInfo"] = json!(format!("commit {commit}"));
    }
    described
}

fn reference(name: &str, version: &str) -> String {
    // SPDX allows letters, digits, dots and hyphens.
    format!("SPDXRef-{name}-{version}").replace(['_', '+'], "-")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
