//! Tests of `cursor`.

use super::*;

#[test]
fn varints_hold_32_bits() {
    #[track_caller]
    fn check(bytes: &[u8], expected: Option<u32>) {
        assert_eq!(Cursor::new(bytes).varint().ok(), expected);
    }
    check(&[0], Some(0));
    check(&[0x7f], Some(127));
    check(&[0x80, 0x01], Some(128));
    check(&[0xff, 0xff, 0xff, 0xff, 0x0f], Some(u32::MAX));
    check(&[0xff, 0xff, 0xff, 0xff, 0x1f], None);
    check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0x01], None);
    check(&[0x80], None);
    check(&[], None);
}

#[test]
fn cursor_take_keeps_offsets() {
    let mut cursor = Cursor::new(BytesMut::from(&b"\x01\0\x02ab\0\0\0\x03xyz\0\x05"[..]));
    assert_eq!(cursor.i8().unwrap(), 1);
    assert_eq!(cursor.string(false).unwrap(), StrBytes::from("ab"));
    assert_eq!(cursor.offset(), 5);
    assert_eq!(cursor.nullable_bytes(false).unwrap().unwrap(), &b"xyz"[..]);
    assert_eq!(cursor.offset(), 12);
    let expected = Malformed::UnexpectedEnd { offset: 14, needed: 5, remaining: 0 };
    assert_eq!(cursor.string(false).unwrap_err(), expected);
}

#[test]
fn null_and_negative_lengths_are_refused() {
    let null = |kind| Malformed::NullNotAllowed { kind, offset: 0 };
    let negative = |kind| Malformed::NegativeLength { kind, length: -2, offset: 0 };
    assert_eq!(Cursor::new(&b"\xff\xff"[..]).string(false).unwrap_err(), null("string"));
    assert_eq!(Cursor::new(&b"\0"[..]).string(true).unwrap_err(), null("string"));
    assert_eq!(Cursor::new(&b"\0"[..]).count(true).unwrap_err(), null("array"));
    assert_eq!(Cursor::new(&b"\xff\xff\xff\xff"[..]).count(false).unwrap_err(), null("array"));
    assert_eq!(Cursor::new(&b"\xff\xfe"[..]).string(false).unwrap_err(), negative("string"));
    assert_eq!(Cursor::new(&b"\xff\xff\xff\xfe"[..]).nullable_bytes(false).unwrap_err(), negative("bytes"));
    assert_eq!(Cursor::new(&b"\xff\xff\xff\xff"[..]).nullable_bytes(false).unwrap(), None);
    assert_eq!(Cursor::new(&b"\0"[..]).nullable_bytes(true).unwrap(), None);
}

#[test]
fn known_tags_use_their_declared_size() {
    fn read(bytes: &[u8]) -> Result<Option<i32>, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let mut value = None;
        cursor.tags(|tag, field| {
            if tag == 1 {
                value = Some(field.i32()?);
            }
            Ok(tag == 1)
        })?;
        Ok(value)
    }
    assert_eq!(read(b"\0"), Ok(None));
    assert_eq!(read(b"\x02\x00\x01z\x01\x04\0\0\0\x07"), Ok(Some(7)));
    let size = Malformed::TaggedFieldSize { tag: 1, size: 5, consumed: 4, offset: 3 };
    assert_eq!(read(b"\x01\x01\x05\0\0\0\x07\0"), Err(size));
    let short = Malformed::UnexpectedEnd { offset: 3, needed: 4, remaining: 3 };
    assert_eq!(read(b"\x01\x01\x03\0\0\x07\0"), Err(short));
}
