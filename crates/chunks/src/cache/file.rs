//! The file of a part: written in order, with a checksum, and compared with it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use crc_fast::{CrcAlgorithm, Digest};

use crate::ChunkKey;
use crate::trailer::{TRAILER_LEN, Trailer};

/// Bytes that a check reads at a time.
const WINDOW: usize = 128 * 1024;

/// Writes a part from its first byte on, up to a limit.
pub(super) struct PartWriter<'a> {
    file: &'a File,
    digest: Digest,
    limit: u64,
    offered: u64,
    failed: Option<io::Error>,
}

impl<'a> PartWriter<'a> {
    pub(super) fn new(file: &'a File, limit: u64) -> Self {
        let digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        Self { file, digest, limit, offered: 0, failed: None }
    }

    /// Received bytes, including those above the limit, which were not written.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    /// The failure of the disk, if there was one: the source of the bytes may have another error
    /// because of it.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Writes the trailer.
    pub(super) fn finish(self, key: ChunkKey) -> io::Result<()> {
        let crc = u32::try_from(self.digest.finalize()).expect("a CRC-32C has 32 bits");
        let trailer = Trailer { key, len: self.offered, crc };
        self.file.write_all_at(&trailer.encode(), self.offered)
    }
}

impl Write for PartWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let at = self.offered;
        self.offered = at.saturating_add(bytes.len() as u64);
        if self.offered > self.limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the part has too many bytes"));
        }
        if let Err(error) = self.file.write_all_at(bytes, at) {
            let told = io::Error::new(error.kind(), "the local file cannot be written");
            self.failed = Some(error);
            return Err(told);
        }
        self.digest.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The length of the part in a file if trailer and bytes agree; none if the file is damaged or has
/// another part.
pub(super) fn is_intact(file: &File, key: ChunkKey) -> io::Result<Option<u64>> {
    let Some(len) = file.metadata()?.len().checked_sub(TRAILER_LEN as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_LEN];
    file.read_exact_at(&mut trailer, len)?;
    let Some(trailer) = Trailer::decode(&trailer) else { return Ok(None) };
    if trailer.key != key || trailer.len != len {
        return Ok(None);
    }
    let (mut digest, mut at, mut window) = (Digest::new(CrcAlgorithm::Crc32Iscsi), 0, vec![0; WINDOW]);
    while at < len {
        let count = usize::try_from(len - at).map_or(WINDOW, |left| left.min(WINDOW));
        file.read_exact_at(&mut window[..count], at)?;
        digest.update(&window[..count]);
        at += count as u64;
    }
    Ok((digest.finalize() == u64::from(trailer.crc)).then_some(len))
}
