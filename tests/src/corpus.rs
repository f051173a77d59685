//! Records of mixed sizes, with keys, headers and null values, as a file that every client can
//! read.
//!
//! The file: records of the form
//! `i64 timestamp, bytes key, bytes value, u16 headers, (bytes name, bytes value)*`, each preceded
//! by its length as `u32`; `bytes` is an `i32` length (-1: null) and the bytes; everything
//! big-endian. Record *i* belongs to partition *i* mod the number of partitions. A consumer writes
//! what it has read in the same form, one stream per partition, and hashes it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use sha2::{Digest, Sha256};

/// Fields of records that may be null; some clients refuse values that the protocol allows.
#[derive(Clone, Copy, PartialEq)]
pub enum Nulls {
    /// In keys, values and the values of headers.
    Anywhere,
    /// In keys or values, but not in both of a record.
    OneSide,
}

/// A generated file and the expected result.
pub struct Corpus {
    /// The file.
    pub path: PathBuf,
    /// Number of records it has.
    pub records: u64,
    /// The SHA-256 of each partition's records, in hexadecimal.
    pub digests: Vec<String>,
}

impl Corpus {
    /// Writes about `bytes` bytes of records for `partitions` partitions.
    pub fn generate(path: &Path, bytes: u64, partitions: usize, nulls: Nulls) -> Self {
        let mut random = StdRng::seed_from_u64(levada_testing::seed());
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).expect("a corpus file"));
        let mut digests = vec![Sha256::new(); partitions];
        let (mut written, mut records) = (0, 0);
        let words = noise(&mut random, 1 << 21);
        let mut record = Vec::new();
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let first_ms = i64::try_from(now_ms).expect("before the year 292 million") - 3_600_000;
        while written < bytes {
            record.clear();
            record.extend((first_ms + i64::from(records as u32 / 100)).to_be_bytes());
            encode(&mut record, nulls, &mut random, &words);
            let partition = records as usize % partitions;
            let length = u32::try_from(record.len()).expect("a record is small").to_be_bytes();
            digests[partition].update(length);
            digests[partition].update(&record);
            file.write_all(&length).and_then(|()| file.write_all(&record)).expect("room for the corpus");
            written += 4 + record.len() as u64;
            records += 1;
        }
        file.flush().expect("room for the corpus");
        let digests = digests.into_iter().map(|digest| hexadecimal(&digest.finalize())).collect();
        Self { path: path.to_path_buf(), records, digests }
    }
}

/// Bytes of which one half compresses well and the other hardly.
fn noise(random: &mut StdRng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes[length / 2..]);
    for (index, byte) in bytes[..length / 2].iter_mut().enumerate() {
        *byte = b"the water runs by gravity alone; "[index % 33];
    }
    bytes
}

fn encode(record: &mut Vec<u8>, nulls: Nulls, random: &mut StdRng, words: &[u8]) {
    let key_length = random.random_range(0..64);
    let with_key = random.random_bool(0.7);
    bytes(record, with_key.then(|| slice(random, words, key_length)));
    // Mostly small; nearly all bytes are in large records.
    let value_length = match random.random_range(0..1000) {
        0..30 => 0,
        30..800 => random.random_range(1..1_000),
        800..990 => random.random_range(1_000..20_000),
        990..998 => random.random_range(20_000..200_000),
        _ => random.random_range(200_000..900_000),
    };
    let with_value = random.random_bool(0.98) || nulls == Nulls::OneSide && !with_key;
    bytes(record, with_value.then(|| slice(random, words, value_length)));
    let headers: u16 = if random.random_bool(0.3) { random.random_range(1..5) } else { 0 };
    record.extend(headers.to_be_bytes());
    for number in 0..headers {
        // The same name may come twice; a value may be null.
        bytes(record, Some(format!("header-{}", number / 2).as_bytes()));
        let length = random.random_range(0..100);
        let with_value = random.random_bool(0.8) || nulls == Nulls::OneSide;
        bytes(record, with_value.then(|| slice(random, words, length)));
    }
}

fn slice<'a>(random: &mut StdRng, words: &'a [u8], length: usize) -> &'a [u8] {
    let start = random.random_range(0..words.len() - length);
    &words[start..start + length]
}

fn bytes(record: &mut Vec<u8>, content: Option<&[u8]>) {
    let length = content.map_or(-1, |content| i32::try_from(content.len()).expect("small"));
    record.extend(length.to_be_bytes());
    record.extend(content.unwrap_or_default());
}

/// Writes `lines` lines `headers TAB key TAB value`, the form of Kafka's console tools.
pub fn write_lines(path: &Path, lines: usize) {
    let mut random = StdRng::seed_from_u64(levada_testing::seed());
    let mut file = BufWriter::new(File::create(path).expect("a corpus file"));
    let letters: Vec<u8> = (0..1 << 20).map(|_| random.random_range(b'a'..=b'z')).collect();
    let letters = String::from_utf8(letters).expect("letters");
    for line in 0..lines {
        let length =
            if line % 50 == 0 { random.random_range(1_000..100_000) } else { random.random_range(1..400) };
        let start = random.random_range(0..letters.len() - length);
        let value = &letters[start..start + length];
        writeln!(file, "kind:line,number:{line}\tkey-{}\t{value}", line % 977).expect("room for the corpus");
    }
    file.flush().expect("room for the corpus");
}

/// The SHA-256 of a file, in hexadecimal.
pub fn digest(path: &Path) -> String {
    let mut digest = Sha256::new();
    let mut file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut buffer = vec![0; 1 << 20];
    loop {
        match std::io::Read::read(&mut file, &mut buffer).expect("a readable file") {
            0 => return hexadecimal(&digest.finalize()),
            length => digest.update(&buffer[..length]),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
