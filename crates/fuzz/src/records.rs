//! Any key and value as a record of the logs that the broker keeps for itself: metadata, its
//! control records, groups and offsets, transactions. A record is refused, or means the same after
//! it was encoded again.

use bytes::Bytes;
use levada_coordination::group::records as group;
use levada_coordination::txn::records as txn;
use levada_metadata::records::{self, control};

/// Checks one input.
pub fn run(input: &[u8]) {
    let [which, key_len, rest @ ..] = input else { return };
    let (key, value) = rest.split_at(usize::from(*key_len).min(rest.len()));
    let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
    let some = (which & 4 == 0).then(|| value.clone());
    // Texts of this length do not fit into every version.
    let may_be_too_long = value.len() > i16::MAX as usize;
    match which & 3 {
        0 => {
            if let Ok((record, _)) = records::decode(value) {
                let again = records::encode(&record).expect("what was decoded is within limits");
                let (again, _) = records::decode(again).expect("our own bytes");
                // In their printed form: a quota may be NaN, which does not equal itself.
                assert_eq!(format!("{again:?}"), format!("{record:?}"));
            }
        }
        1 => {
            if let Ok(record) = control::decode(key, value) {
                let (key, value) = control::encode(&record).expect("what was decoded is within limits");
                assert_eq!(control::decode(key, value).expect("our own bytes"), record);
            }
        }
        2 => {
            if let Ok(record) = group::Record::decode(key, some) {
                match record.encode() {
                    Ok(again) => {
                        let found = group::Record::decode(again.key, again.value).expect("our own bytes");
                        assert_eq!(found, record);
                    }
                    Err(error) => assert!(may_be_too_long, "{error}: {record:?}"),
                }
            }
        }
        _ => {
            if let Ok(record) = txn::Record::decode(key, some) {
                let again = record.encode().expect("what was decoded is within limits");
                let found = txn::Record::decode(again.key, again.value).expect("our own bytes");
                assert_eq!(found, record);
            }
        }
    }
}
