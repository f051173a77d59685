//! The directory of the metadata log among the data directories.

use std::path::{Path, PathBuf};

use super::BrokerConfig;

impl BrokerConfig {
    /// The directory of the metadata log: `metadata.log.dir`, else the first of `log.dirs`.
    pub fn metadata_dir(&self) -> &Path {
        let named = self.settings().text("metadata.log.dir").filter(|dir| !dir.is_empty()).map(Path::new);
        named.or(self.log_dirs.first().map(PathBuf::as_path)).unwrap_or(Path::new("."))
    }
}
