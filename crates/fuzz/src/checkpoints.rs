//! Arbitrary bytes as each of the small text files: those of a data directory, and the thresholds
//! that `levada lab calibrate` writes. A decoded file means the same after it was written again.

use std::fs;
use std::path::Path;

use levada_io::Thresholds;
use levada_log::checkpoint::{CleanShutdown, MetaProperties, OffsetCheckpoint, PartitionMetadata};
use levada_log::disk::RealDisk;

use crate::scratch;

/// Checks one input.
pub fn run(input: &[u8]) {
    let dir = &scratch::path();
    let put = |name: &str| fs::write(dir.join(name), input).expect("a file of our own");
    let checkpoint = OffsetCheckpoint::RecoveryPoint;
    put(checkpoint.file_name());
    if let Ok(offsets) = checkpoint.load(&RealDisk, dir) {
        checkpoint.store(&RealDisk, dir, &offsets).expect("a file of our own");
        assert_eq!(checkpoint.load(&RealDisk, dir).expect("written just now"), offsets);
    }
    put(PartitionMetadata::FILE_NAME);
    if let Ok(Some(metadata)) = PartitionMetadata::load(&RealDisk, dir) {
        metadata.store(&RealDisk, dir).expect("a file of our own");
        assert_eq!(PartitionMetadata::load(&RealDisk, dir).expect("written just now"), Some(metadata));
    }
    put(MetaProperties::FILE_NAME);
    if let Ok(Some(properties)) = MetaProperties::load(&RealDisk, dir) {
        properties.store(&RealDisk, dir).expect("a file of our own");
        assert_eq!(MetaProperties::load(&RealDisk, dir).expect("written just now"), Some(properties));
    }
    put(CleanShutdown::FILE_NAME);
    let mark = CleanShutdown::take(&RealDisk, dir).expect("a file of our own").expect("it is there");
    mark.store(&RealDisk, dir).expect("a file of our own");
    assert_eq!(CleanShutdown::take(&RealDisk, dir).expect("written just now"), Some(mark));
    thresholds(&dir.join("calibration"), input);
}

fn thresholds(path: &Path, input: &[u8]) {
    let load = |bytes: &[u8]| {
        fs::write(path, bytes).expect("a file of our own");
        Thresholds::load(path)
    };
    let Ok(found) = load(input) else { return };
    assert!(found.pipe_floor_bytes <= found.pipe_bytes, "no pipe would be large enough");
    let again = load(found.to_text("written\nagain").as_bytes()).expect("written just now");
    assert!(again.calibrated().eq(found.calibrated()));
}
