//! The workbench of an experiment: a directory with enough space, and temporary files that remove
//! themselves.

use std::fs::File;
use std::path::{Path, PathBuf};

use levada_io::Caps;
use rustix::fs::Advice;
use tempfile::TempDir;

use super::payload;
use crate::error::LabError;
use crate::machine::cpu::Places;
use crate::machine::host_memory;
use crate::method::limits::Scale;

/// The workbench of a run.
#[derive(Debug)]
pub struct Bench {
    scale: Scale,
    dir: TempDir,
    caps: Caps,
    places: Places,
    /// Keeps [memory on loan](host_memory) at home.
    hole: Option<File>,
}

/// Space that stays free in addition to an experiment's need.
const RESERVE_BYTES: u64 = 256 << 20;

impl Bench {
    /// A bench in a separate directory in `dir`, which is removed with the bench.
    ///
    /// # Errors
    /// `dir` takes no files.
    pub fn new(dir: &Path, scale: Scale) -> Result<Self, LabError> {
        let own = tempfile::Builder::new().prefix("levada-lab-").tempdir_in(dir);
        let own = own.map_err(LabError::file("cannot make a directory in", dir))?;
        let caps = Caps::probe_in(own.path());
        Ok(Self { scale, dir: own, caps, places: Places::of_this_process(), hole: None })
    }

    /// Takes memory home that the host has on loan, as a virtual machine's free memory may be:
    /// otherwise the first access would pay for its return. It stays until the bench is dropped.
    /// `show` is told the bytes done of all. Blocks for seconds a gigabyte.
    ///
    /// # Errors
    /// The directory takes no file.
    pub fn reclaim_host_memory(&mut self, show: &mut dyn FnMut(u64, u64)) -> Result<(), LabError> {
        let wanted = host_memory::wanted_bytes();
        if wanted > 0 {
            let mut hole = self.file()?;
            host_memory::take_home(&mut hole, wanted, &mut |done| show(done, wanted))?;
            self.hole = Some(hole);
        }
        Ok(())
    }

    /// Amount of work.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// A directory for files that need a name; removed with the bench.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Capabilities of this machine.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Processors of each side.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Fails unless `bytes` more have room, with a reserve for the rest of the machine.
    ///
    /// # Errors
    /// [`LabError::NoSpace`].
    pub fn reserve(&self, bytes: u64) -> Result<(), LabError> {
        let dir: PathBuf = self.dir().to_owned();
        let stat = rustix::fs::statvfs(&dir).map_err(LabError::file("cannot ask for free space in", &dir))?;
        let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        let wanted_bytes = bytes.saturating_add(RESERVE_BYTES);
        if free_bytes < wanted_bytes {
            return Err(LabError::NoSpace { dir, free_bytes, wanted_bytes });
        }
        Ok(())
    }

    /// An empty file without a name: it is removed with its last descriptor, also if the process is
    /// killed.
    ///
    /// # Errors
    /// The directory takes none.
    pub fn file(&self) -> Result<File, LabError> {
        tempfile::tempfile_in(self.dir()).map_err(LabError::file("cannot make a file in", self.dir()))
    }

    /// A nameless file with `len` bytes in which no two pages are alike, on the device and in the
    /// page cache; and its checksum.
    ///
    /// # Errors
    /// There is no room, or the directory takes no file.
    pub fn filled_file(&self, len: u64) -> Result<(File, u64), LabError> {
        self.reserve(len)?;
        let mut file = self.file()?;
        let sum = payload::write(&mut file, len, len);
        let sum = sum.map_err(LabError::file("cannot fill a file in", self.dir()))?;
        Ok((file, sum))
    }
}

/// Takes a file's pages out of the page cache. Pages that were not written stay, so sync before.
///
/// # Errors
/// The file system does not do it.
pub(crate) fn chill(file: &File) -> Result<(), LabError> {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
        .map_err(LabError::step("cannot drop a file from the page cache"))
}
