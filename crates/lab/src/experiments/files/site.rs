//! The served directory: files of several sizes on the device, with known checksums.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::LabError;
use crate::harness::bench::{Bench, chill};
use crate::harness::identity::Identity;
use crate::harness::payload;

/// A directory of files, and the certificate of its servers.
#[derive(Debug)]
pub(super) struct Site {
    dir: TempDir,
    pub(super) files: Vec<SiteFile>,
    pub(super) identity: Identity,
}

/// Name, length and checksum of a file.
#[derive(Debug, Clone)]
pub(super) struct SiteFile {
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) checksum: u64,
}

impl Site {
    /// Creates a directory with a file for each name and length in bytes.
    pub(super) fn new(bench: &Bench, files: &[(String, u64)]) -> Result<Self, LabError> {
        bench.reserve(files.iter().map(|(_, len)| len).sum())?;
        let dir = tempfile::Builder::new().prefix("site").tempdir_in(bench.dir());
        let dir = dir.map_err(LabError::file("cannot make a directory in", bench.dir()))?;
        let root = dir.path().join("root");
        std::fs::create_dir(&root).map_err(LabError::file("cannot make", &root))?;
        let write = |(number, (name, len)): (usize, &(String, u64))| {
            let path = root.join(name);
            let mut file = File::create(&path).map_err(LabError::file("cannot write", &path))?;
            let checksum = payload::write(&mut file, *len, number as u64 + 1);
            let checksum = checksum.map_err(LabError::file("cannot fill", &path))?;
            Ok(SiteFile { name: name.clone(), len: *len, checksum })
        };
        let files = files.iter().enumerate().map(write).collect::<Result<_, LabError>>()?;
        let identity = Identity::create(&dir.path().join("server.pem"))?;
        Ok(Self { dir, files, identity })
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Finds a file by its name.
    pub(super) fn file(&self, name: &str) -> Result<&SiteFile, LabError> {
        let found = self.files.iter().find(|file| file.name == name);
        found.ok_or_else(|| LabError::Peer(format!("the site has no file {name}")))
    }

    /// Evicts a file from the page cache.
    pub(super) fn chill(&self, file: &SiteFile) -> Result<(), LabError> {
        let path = self.root().join(&file.name);
        chill(&File::open(&path).map_err(LabError::file("cannot open", &path))?)
    }

    /// Directory that contains the served one.
    pub(super) fn beside(&self) -> &Path {
        self.dir.path()
    }
}
