//! The container image: an OCI layout in one tar archive, made without a daemon.
//! `skopeo copy oci-archive:FILE …`, `podman load` and `docker load` (25 and newer) read it.

use std::path::Path;

use serde_json::{Value, json};

use super::Release;
use super::contents::{self, Entry};
use super::tarball::{self, Owner, ROOT};

/// The account in the image, by its number: orchestrators that refuse root cannot look up names.
pub(crate) const USER: u64 = 65_532;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The image's archive.
pub(crate) fn image(root: &Path, release: &Release, binary: &Path) -> Result<Vec<u8>, String> {
    let entries = contents::image(root, binary)?;
    let owner = |entry: &Entry| {
        if entry.path.starts_with("var/lib/levada") { Owner { id: USER, name: "levada" } } else { ROOT }
    };
    let layer = tarball::archive(&entries, release.epoch, owner)?;
    let packed = contents::gzip(&layer);
    let config = config(release, &super::sha256(&layer))?.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, &packed)],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut named = descriptor(MANIFEST, &manifest);
    named["annotations"] = json!({
        "org.opencontainers.image.ref.name": release.version,
        "io.containerd.image.name": format!("docker.io/library/levada:{}", release.version),
    });
    let index = json!({ "schemaVersion": 2, "manifests": [named] });
    let blob = |bytes: Vec<u8>| Entry::file(format!("blobs/sha256/{}", super::sha256(&bytes)), 0o644, bytes);
    let layout = [
        Entry::directory("blobs", 0o755),
        Entry::directory("blobs/sha256", 0o755),
        blob(config),
        blob(packed),
        blob(manifest),
        Entry::file("index.json", 0o644, index.to_string()),
        Entry::file("oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string()),
    ];
    tarball::archive(&layout, release.epoch, |_| ROOT)
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    let digest = format!("sha256:{}", super::sha256(bytes));
    json!({ "mediaType": kind, "digest": digest, "size": bytes.len() })
}

fn config(release: &Release, layer: &str) -> Result<Value, String> {
    let created = release.date()?;
    Ok(json!({
        "architecture": release.debian_architecture(),
        "os": "linux",
        "created": created,
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "LEVADA_CONFIG=/etc/levada/server.properties"],
            "Entrypoint": ["/usr/bin/levada"],
            "Cmd": ["serve"],
            "WorkingDir": "/var/lib/levada",
            "ExposedPorts": { "9092/tcp": {} },
            "Volumes": { "/var/lib/levada": {} },
            "StopSignal": "SIGTERM",
            // Not in OCI's specification; Docker and Podman go by it.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/levada", "cluster", "health", "--http", "127.0.0.1:9644", "--live"],
                "Interval": 30_000_000_000_u64,
                "Timeout": 10_000_000_000_u64,
                "StartPeriod": 60_000_000_000_u64,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "levada",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    }))
}
