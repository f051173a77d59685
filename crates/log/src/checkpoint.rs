//! The small files beside the logs: checkpoints of offsets, the identity of topics and directories, the mark of a clean shutdown. Each
//! is replaced as a whole: written under another name, synced, renamed, and its directory synced.

use std::path::Path;

use crate::LogError;
use crate::disk::{At, Disk, suffixed};

mod clean_shutdown;
mod identity;
pub(crate) mod lines;
mod offsets;

pub use clean_shutdown::CleanShutdown;
pub use identity::{MetaProperties, PartitionMetadata, Uuid};
pub use offsets::OffsetCheckpoint;

/// Replaces a file so that after a crash there is the old one or the new one, whole.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), LogError> {
    let fresh = &*suffixed(path, ".tmp");
    disk.write_file(fresh, bytes).at("write", fresh)?;
    disk.sync_file(fresh).at("sync", fresh)?;
    disk.rename(fresh, path).at("rename", fresh)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    disk.sync_dir(dir).at("sync", dir)
}
