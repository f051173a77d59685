//! Names of files.

use super::*;

const SEGMENT: IdBytes = [0xfb; 16];

#[test]
fn file_names_and_chunk_keys_round_trip() {
    for part in [Part::Records(0), Part::Records(255), Part::Offsets, Part::Times, Part::Aborted] {
        let key = ChunkKey { segment: SEGMENT, part };
        assert_eq!(ChunkKey::of_file(&key.file_name()), Some(key));
        assert!(ChunkKey::is_unfinished(&key.unfinished_name()));
        assert_eq!(ChunkKey::of_file(&key.unfinished_name()), None);
    }
}

#[test]
fn kafka_finds_the_id_in_a_name() {
    let name = ChunkKey { segment: SEGMENT, part: Part::Records(12) }.file_name();
    let (from, to) = (name.find('_').unwrap() + 1, name.find('.').unwrap());
    assert_eq!(parse_id(&name[from..to]), Some(SEGMENT));
}

#[test]
fn foreign_file_names_have_no_key() {
    let id = id_text(SEGMENT);
    let others = [
        String::new(),
        format!("0_{id}.index"),
        format!("00_{id}.records"),
        format!("1_{id}.offsets"),
        format!("-1_{id}.records"),
        format!("4294967296_{id}.records"),
        format!("0_{id}x.records"),
        format!("0_{id}.records.deleted"),
    ];
    for name in others {
        assert_eq!(ChunkKey::of_file(&name), None, "{name}");
        assert!(!ChunkKey::is_unfinished(&name), "{name}");
    }
}
