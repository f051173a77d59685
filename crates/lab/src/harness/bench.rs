//! The workbench of an experiment: a directory with enough space, and temporary files that are
//! removed automatically.

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
    /// File whose pages hold the [memory that the host has reclaimed](host_memory) in the guest.
    hole: Option<File>,
}

/// Bytes that stay free in addition to an experiment's need.
const RESERVE_BYTES: u64 = 256 << 20;

impl Bench {
    /// Creates a bench in a new directory below `dir`. Drop removes the directory.
    ///
    /// # Errors
    /// This process cannot create a directory in `dir`.
    pub fn new(dir: &Path, scale: Scale) -> Result<Self, LabError> {
        let own = tempfile::Builder::new().prefix("levada-lab-").tempdir_in(dir);
        let own = own.map_err(LabError::file("cannot make a directory in", dir))?;
        let caps = Caps::probe_in(own.path());
        Ok(Self { scale, dir: own, caps, places: Places::of_this_process(), hole: None })
    }

    /// Takes back memory that the host has reclaimed, such as free memory of a virtual machine:
    /// otherwise the first access would wait for the host. The memory stays in the guest until the
    /// bench is dropped. `show` gets the bytes taken so far, and the total. Blocks for seconds per
    /// gigabyte.
    ///
    /// # Errors
    /// The directory accepts no file.
    pub fn reclaim_host_memory(&mut self, show: &mut dyn FnMut(u64, u64)) -> Result<(), LabError> {
        let wanted = host_memory::wanted_bytes();
        if wanted > 0 {
            let mut hole = self.file()?;
            host_memory::take_home(&mut hole, wanted, &mut |done| show(done, wanted))?;
            self.hole = Some(hole);
        }
        Ok(())
    }

    /// Amount of work of a run.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Directory for files that need a name. Drop of the bench removes it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Capabilities of this machine.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Processors of the sender and the receiver.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Fails unless `bytes` more fit on the device, with a reserve for other programs.
    ///
    /// # Errors
    /// [`LabError::NoSpace`], or the operating system does not report the free space.
    pub fn reserve(&self, bytes: u64) -> Result<(), LabError> {
        let dir: PathBuf = self.dir().to_owned();
        let stat =
            rustix::fs::statvfs(&dir).map_err(LabError::file("cannot read the free space of", &dir))?;
        let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        let wanted_bytes = bytes.saturating_add(RESERVE_BYTES);
        if free_bytes < wanted_bytes {
            return Err(LabError::NoSpace { dir, free_bytes, wanted_bytes });
        }
        Ok(())
    }

    /// Creates an empty file without a name. The kernel removes it with its last descriptor, even
    /// if the process is killed.
    ///
    /// # Errors
    /// The directory accepts no file.
    pub fn file(&self) -> Result<File, LabError> {
        tempfile::tempfile_in(self.dir()).map_err(LabError::file("cannot make a file in", self.dir()))
    }

    /// Creates a file without a name, with `len` bytes in which no two pages are equal, on the
    /// device and in the page cache. Returns the file and its checksum.
    ///
    /// # Errors
    /// The device has too little space, or the directory accepts no file.
    pub fn filled_file(&self, len: u64) -> Result<(File, u64), LabError> {
        self.reserve(len)?;
        let mut file = self.file()?;
        let sum = payload::write(&mut file, len, len);
        let sum = sum.map_err(LabError::file("cannot fill a file in", self.dir()))?;
        Ok((file, sum))
    }
}

/// Drops a file's pages from the page cache. Dirty pages remain, so the caller must sync the file
/// before.
///
/// # Errors
/// The file system refuses.
pub(crate) fn chill(file: &File) -> Result<(), LabError> {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
        .map_err(LabError::step("cannot drop a file from the page cache"))
}
