//! The payload: bytes in which no two pages are equal, so that a lost, repeated or swapped page
//! changes the checksum.

use std::fs::File;
use std::io::{self, Write};

/// Algorithm of the checksums of all integrity checks: CRC-64.
pub(crate) fn digest() -> crc_fast::Digest {
    crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme)
}

/// Checksum of these bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mut digest = digest();
    digest.update(bytes);
    digest.finalize()
}

/// A generator whose bytes depend only on its seed.
#[derive(Debug)]
pub(crate) struct Payload {
    state: u64,
}

impl Payload {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            // Xorshift is fast and repeats no word within its period.
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            chunk.copy_from_slice(&self.state.to_le_bytes()[..chunk.len()]);
        }
    }

    /// Returns `len` bytes of a new generator.
    #[cfg(test)]
    pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Self::new(seed).fill(&mut bytes);
        bytes
    }
}

/// Writes `len` bytes to the file and syncs it, so that no writeback runs during a measurement.
/// Returns the checksum of the bytes.
pub(crate) fn write(file: &mut File, len: u64, seed: u64) -> io::Result<u64> {
    let (mut payload, mut digest) = (Payload::new(seed), digest());
    let mut block = vec![0; 1 << 20];
    let mut left = len;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        payload.fill(&mut block[..now]);
        digest.update(&block[..now]);
        file.write_all(&block[..now])?;
        left -= now as u64;
    }
    file.sync_all()?;
    Ok(digest.finalize())
}
