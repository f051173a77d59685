//! Tests of compressed chunks. The list of the first test is one that the plug-in's own tests have.

use super::*;

fn list(lengths: &[u32]) -> String {
    let mut bytes = (lengths.len() as u32).to_be_bytes().to_vec();
    let (last, others) = lengths.split_last().unwrap();
    if !others.is_empty() {
        bytes.extend([0, 0, 0, 0, 4]);
        others.iter().for_each(|length| bytes.extend(length.to_be_bytes()));
    }
    bytes.extend(last.to_be_bytes());
    STANDARD.encode(zstd::bulk::compress(&bytes, 3).unwrap())
}

/// Records in chunks of 100 bytes, compressed.
fn compressed(records: &[u8]) -> (Chunks, Vec<u8>) {
    let parts: Vec<Vec<u8>> =
        records.chunks(100).map(|part| zstd::bulk::compress(part, 3).unwrap()).collect();
    let lengths: Vec<u32> = parts.iter().map(|part| part.len() as u32).collect();
    (Chunks::variable(100, records.len() as u64, &list(&lengths)).unwrap(), parts.concat())
}

#[test]
fn aiven_chunk_lists_are_parsed() {
    let chunks = Chunks::variable(100, 250, "KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe").unwrap();
    assert_eq!(chunks.ends, [10, 30, 60]);
    assert_eq!(
        (chunks.stored(0..1), chunks.stored(99..101), chunks.stored(200..250)),
        (0..10, 0..30, 30..60)
    );
    assert_eq!((chunks.stored(5..5), chunks.object_length()), (0..0, 60));
}

#[test]
fn run_length_chunks_are_expanded() {
    let records: Vec<u8> = (0..250_u32).map(|at| (at * at) as u8).collect();
    let (chunks, object) = compressed(&records);
    for (start, end) in [(0, 250), (0, 1), (99, 101), (100, 200), (249, 250), (150, 249)] {
        let stored = chunks.stored(start..end);
        for step in [1, 7, 1000] {
            let (mut expander, mut damage, mut found) = (chunks.expander(start..end), None, Vec::new());
            for piece in object[stored.start as usize..stored.end as usize].chunks(step) {
                let mut sink = |bytes: &[u8]| {
                    found.extend_from_slice(bytes);
                    Ok(())
                };
                expander.take(piece, &mut damage, &mut sink).unwrap();
            }
            assert_eq!(found, records[start as usize..end as usize], "{start} to {end} by {step}");
        }
    }
}

#[test]
fn damaged_chunks_have_a_cause() {
    let (chunks, mut object) = compressed(&[7; 250]);
    object[0] ^= 1;
    let mut damage = None;
    assert!(chunks.expander(0..250).take(&object, &mut damage, &mut |_| Ok(())).is_err());
    assert_eq!(damage.as_deref(), Some("chunk 0 is not valid"));
}

#[test]
fn hostile_chunk_lists_are_refused() {
    let refused = |chunk, size, text: &str| Chunks::variable(chunk, size, text).unwrap_err();
    assert!(refused(0, 250, &list(&[1])).contains("chunks of 0 bytes"));
    assert!(refused(1 << 40, 250, &list(&[1])).contains("are not valid"));
    assert!(refused(1, 1 << 31, &list(&[1])).contains("are not valid"));
    for text in ["", "%", "AAAA", &list(&[1, 2]), &list(&[1, 2, u32::MAX])] {
        assert!(refused(100, 250, text).contains("list of compressed chunks"), "{text}");
    }
    // Terabytes of zeros in a few bytes.
    let bomb = STANDARD.encode(zstd::bulk::compress(&vec![0; 1 << 24], 19).unwrap());
    assert!(refused(100, 250, &bomb).contains("list of compressed chunks"));
}

#[test]
fn short_lists_are_invalid() {
    assert_eq!(lengths(&[0, 0, 0, 0]), Some(vec![]));
    assert_eq!(lengths(&[0, 0, 0, 1, 0, 0, 0, 9]), Some(vec![9]));
    let three = [0, 0, 0, 3, 0, 0, 0, 10, 1, 0, 10, 0, 0, 0, 30];
    assert_eq!(lengths(&three), Some(vec![10, 20, 30]));
    for end in 0..three.len() {
        assert_eq!(lengths(&three[..end]), None, "{end}");
    }
    assert_eq!(lengths(&[0, 0, 0, 2, 255, 255, 255, 255, 1, 1, 0, 0, 0, 1]), None, "overflow");
}
