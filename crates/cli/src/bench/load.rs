//! The load: a schedule that does not wait for responses, and records that do not compress.

use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_base::batch::Builder;
use levada_base::compress::Compression;
use levada_terminal::failure::Failure;

use crate::time;

/// Times at equal intervals, independent of the responses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    start: Instant,
    per_second: f64,
}

impl Schedule {
    pub(super) fn new(start: Instant, per_second: f64) -> Self {
        Self { start, per_second }
    }

    /// Time at which the n-th record is to be sent; n counts from 0.
    pub(super) fn due(&self, n: u64) -> Instant {
        self.start + Duration::from_secs_f64(n as f64 / self.per_second)
    }
}

/// Records of one size, cut from a stretch of random bytes.
pub(super) struct Records {
    noise: Vec<u8>,
    size: usize,
    compression: Compression,
}

/// Distance between the starts of two records in the random bytes, and the stretch in which they
/// start.
const STEP: u64 = 4099;
const STRETCH: u64 = 1 << 20;

impl Records {
    pub(super) fn new(size: u32, compression: Compression) -> Self {
        let size = size as usize;
        let mut noise = vec![0; STRETCH as usize + size];
        rand::fill(&mut noise[..]);
        Self { noise, size, compression }
    }

    /// A batch of `count` records, numbered from `first` on.
    pub(super) fn batch(&self, first: u64, count: u64) -> Result<Bytes, Failure> {
        let mut builder = Builder::new().compression(self.compression);
        let now_ms = time::now_ms();
        for n in first..first + count {
            builder.push(now_ms, None, Some(self.value(n)));
        }
        built(&builder)
    }

    /// A batch of one record that begins with `mark`.
    pub(super) fn marked(&self, n: u64, mark: [u8; 16]) -> Result<Bytes, Failure> {
        let mut value = self.value(n).to_vec();
        value[..mark.len()].copy_from_slice(&mark);
        let mut builder = Builder::new().compression(self.compression);
        builder.push(time::now_ms(), None, Some(&value));
        built(&builder)
    }

    /// Bytes of a record's value.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size as u64
    }

    fn value(&self, n: u64) -> &[u8] {
        let start = (n.wrapping_mul(STEP) % STRETCH) as usize;
        &self.noise[start..start + self.size]
    }
}

fn built(builder: &Builder) -> Result<Bytes, Failure> {
    let batch = builder.build().map_err(|error| Failure::new(format!("cannot encode a batch: {error}")))?;
    Ok(batch.freeze())
}
