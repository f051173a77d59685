//! The container image: an OCI layout in one tar archive, made without a daemon.
//! `skopeo copy oci-archive:FILE …`, `podman load` and `docker load` (25 and newer) read it.

use std::path::Path;

use serde_json::{Value, json};

use super::contents::{self, Entry};
use super::release::Release;
use super::tarball::{self, ROOT};

/// The account in the image, by its number: orchestrators that refuse root cannot look up names.
pub(crate) const USER: u64 = 65_532;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The image of one architecture.
pub(super) struct Image {
    manifest: Vec<u8>,
    config: Vec<u8>,
    layer: Vec<u8>,
    platform: Value,
}

impl Image {
    pub(super) fn of(root: &Path, release: &Release, binary: &Path) -> Result<Self, String> {
        let entries = super::image::entries(root, binary)?;
        let plain = tarball::archive(&entries, release.epoch, super::image::owner)?;
        let layer = contents::gzip(&plain);
        let config = config(release, &super::sha256(&plain))?.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config),
            "layers": [descriptor(LAYER, &layer)],
        });
        let platform = json!({ "architecture": release.debian_architecture(), "os": "linux" });
        Ok(Self { manifest: manifest.to_string().into_bytes(), config, layer, platform })
    }
}

/// An archive of one image, or of the same image for several architectures.
pub(super) fn archive(release: &Release, images: &[Image]) -> Result<Vec<u8>, String> {
    let blob = |bytes: &[u8]| Entry::file(format!("blobs/sha256/{}", super::sha256(bytes)), 0o644, bytes);
    let mut layout = vec![
        Entry::directory("blobs", 0o755),
        Entry::directory("blobs/sha256", 0o755),
        Entry::file("oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string()),
    ];
    let mut manifests = Vec::new();
    for image in images {
        layout.extend([blob(&image.config), blob(&image.layer), blob(&image.manifest)]);
        let mut manifest = descriptor(MANIFEST, &image.manifest);
        if images.len() > 1 {
            manifest["platform"] = image.platform.clone();
        }
        manifests.push(manifest);
    }
    let mut named = match <[Value; 1]>::try_from(manifests) {
        Ok([only]) => only,
        Err(manifests) => {
            let list = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests }).to_string();
            layout.push(blob(list.as_bytes()));
            descriptor(INDEX, list.as_bytes())
        }
    };
    named["annotations"] = json!({
        "org.opencontainers.image.ref.name": release.version,
        "io.containerd.image.name": format!("docker.io/library/levada:{}", release.version),
    });
    let index = json!({ "schemaVersion": 2, "manifests": [named] });
    layout.push(Entry::file("index.json", 0o644, index.to_string()));
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
            "Env": [
                "PATH=/usr/bin:/bin:/opt/kafka/bin",
                "LEVADA_CONFIG=/etc/levada/server.properties",
                "LEVADA_KAFKA_ENVIRONMENT=true",
            ],
            "Entrypoint": [format!("/usr/bin/{}", contents::ENTRY)],
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
                "org.opencontainers.image.revision": release.commit,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    }))
}
