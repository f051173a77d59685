//! Tests of the wire format. The bytes are those of confluent-kafka 2.16.1 for Python.

use super::*;

const GUID: &str = "89791762-2336-4186-9674-299b90a802e2";

fn guid() -> Vec<u8> {
    vec![0x89, 0x79, 0x17, 0x62, 0x23, 0x36, 0x41, 0x86, 0x96, 0x74, 0x29, 0x9b, 0x90, 0xa8, 0x02, 0xe2]
}

#[test]
fn prefix_has_id_and_indexes() {
    let framed = Framed::of(&[0, 0, 0, 1, 2, 7, 8], None).unwrap();
    assert_eq!((framed.id, framed.payload()), (SchemaId::Number(258), &[7, 8][..]));
    let check = |bytes: &[u8], indexes: &[usize], payload: &[u8]| {
        let framed = Framed::of(bytes, None).unwrap();
        assert_eq!(framed.message(), Some((indexes.to_vec(), payload)));
        let mut out = Vec::new();
        push_prefix(&mut out, 7, Some(indexes));
        assert_eq!(out, &bytes[..bytes.len() - payload.len()]);
    };
    check(&[0, 0, 0, 0, 7, 0, 8, 3], &[0], &[8, 3]);
    check(&[0, 0, 0, 0, 7, 2, 2, 0x0a], &[1], &[0x0a]);
    check(&[0, 0, 0, 0, 7, 4, 2, 2, 0x0a], &[1, 1], &[0x0a]);
    check(&[0, 0, 0, 0, 7, 2, 0x80, 2], &[128], &[]);
}

#[test]
fn header_has_number_or_guid() {
    let header = [&[1][..], &guid(), &[4, 2, 0]].concat();
    let framed = Framed::of(b"x", Some(&header)).unwrap();
    assert_eq!(framed.id.to_string(), GUID);
    assert_eq!((framed.message(), framed.payload()), (Some((vec![1, 0], &b"x"[..])), &b"x"[..]));
    let framed = Framed::of(b"x", Some(&[0, 0, 0, 0, 5])).unwrap();
    assert_eq!((framed.id, framed.payload()), (SchemaId::Number(5), &b"x"[..]));
}

#[test]
fn values_without_schema_prefix_are_recognized() {
    for bytes in [&b""[..], b"{}", &[0], &[0, 0, 0, 1], &[1, 0, 0, 0, 1]] {
        assert_eq!(Framed::of(bytes, None), None, "{bytes:?}");
        assert_eq!(Framed::of(bytes, Some(&[1, 2, 3])), None, "{bytes:?}");
    }
}

#[test]
fn malformed_indexes_are_refused() {
    let check = |after: &[u8]| {
        let bytes = [&[0, 0, 0, 0, 7][..], after].concat();
        assert_eq!(Framed::of(&bytes, None).unwrap().message(), None, "{after:?}");
    };
    check(&[]);
    check(&[1]);
    check(&[2]);
    check(&[2, 1]);
    check(&[2, 0x80]);
    check(&[0xfe, 0xff, 0xff, 0xff, 0x0f, 0]);
    check(&[0xff; 11]);
}

#[test]
fn varints_have_64_bits() {
    for number in [0, -1, 1, 63, -64, 64, i64::from(i32::MAX), i64::MAX, i64::MIN] {
        let mut out = Vec::new();
        push_varint(&mut out, number);
        assert_eq!(varint(&out), Some((number, &[][..])));
        assert_eq!(varint(&out[..out.len() - 1]), None);
    }
    assert_eq!(varint(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]), None, "the 65th bit");
}
