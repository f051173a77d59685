//! Record batches of format 2, right or wrong in a chosen place.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::{Connection, Encoder};

/// Attribute of a batch of a transaction.
pub const TRANSACTIONAL: i16 = 0x10;

/// A batch of records without keys.
#[derive(Clone)]
pub struct Batch {
    /// The values of its records.
    pub values: Vec<Vec<u8>>,
    /// Producer id, epoch and first sequence; -1 each without idempotence.
    pub producer: (i64, i16, i32),
    /// The header's claim instead of the number of records.
    pub claimed_count: Option<i32>,
    /// The header's claim instead of the last offset's distance.
    pub claimed_last_delta: Option<i32>,
    /// Compression type and flags.
    pub attributes: i16,
    /// True to compress the records with gzip, and set the attribute.
    pub gzip: bool,
    /// Timestamp of the records, ms.
    pub written_ms: i64,
    /// The header's first offset.
    pub base_offset: i64,
    /// True to make the checksum wrong.
    pub break_crc: bool,
}

impl Batch {
    /// A valid batch with these values.
    pub fn of(values: &[&[u8]]) -> Self {
        Self {
            values: values.iter().map(|value| value.to_vec()).collect(),
            producer: (-1, -1, -1),
            claimed_count: None,
            claimed_last_delta: None,
            attributes: 0,
            gzip: false,
            written_ms: 1_700_000_000_000,
            base_offset: 0,
            break_crc: false,
        }
    }

    /// Encodes the batch.
    pub fn encode(&self) -> Vec<u8> {
        let count = i32::try_from(self.values.len()).expect("few records");
        let (producer_id, producer_epoch, sequence) = self.producer;
        let body = Encoder::default()
            .i16(self.attributes | i16::from(self.gzip))
            .i32(self.claimed_last_delta.unwrap_or(count - 1))
            .i64(self.written_ms)
            .i64(self.written_ms)
            .i64(producer_id)
            .i16(producer_epoch)
            .i32(sequence)
            .i32(self.claimed_count.unwrap_or(count));
        let mut records = Encoder::default();
        for (delta, value) in (0..).zip(&self.values) {
            // attributes, timestamp delta, offset delta, null key, value, no headers
            let record = Encoder::default().i8(0).raw(&zigzag(0)).raw(&zigzag(delta)).raw(&zigzag(-1));
            let record = record.raw(&zigzag(value.len() as i32)).raw(value).raw(&zigzag(0)).done();
            records = records.raw(&zigzag(record.len() as i32)).raw(&record);
        }
        let records = records.done();
        let body = body.raw(&if self.gzip { gzip(&records) } else { records }).done();
        let crc = crc32c(&body) ^ u32::from(self.break_crc);
        let length = i32::try_from(4 + 1 + 4 + body.len()).expect("a small batch");
        let head = Encoder::default().i64(self.base_offset).i32(length).i32(-1).i8(2).i32(crc.cast_signed());
        head.raw(&body).done()
    }
}

fn zigzag(value: i32) -> Vec<u8> {
    Encoder::default().varint(((value << 1) ^ (value >> 31)).cast_unsigned()).done()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut command = Command::new("gzip");
    let mut child = command.arg("-1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip");
    let mut input = child.stdin.take().expect("stdin was asked for");
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(bytes).expect("gzip reads"));
        child.wait_with_output().expect("gzip").stdout
    })
}

/// CRC-32C (Castagnoli), bit by bit: nothing here may share a mistake with the broker.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// Opens a transaction in partition 0 that no coordinator has, as a lost request once left behind:
/// one record of this producer, of this age. Returns the bytes of the response.
pub fn lose_transaction(address: SocketAddr, topic: &str, (producer, written_ms): (i64, i64)) -> Vec<u8> {
    let batch =
        Batch { producer: (producer, 0, 0), attributes: TRANSACTIONAL, written_ms, ..Batch::of(&[b"one"]) };
    let head = Encoder::default().i16(0).i16(8).i32(7).string("raw").string("lost").i16(-1).i32(5_000);
    let request = head.i32(1).string(topic).i32(1).i32(0).bytes(&batch.encode()).done();
    Connection::open(address).call(&request)
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn crc32c_matches_the_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
