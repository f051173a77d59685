//! Tests of Protobuf. The golden bytes are those of Google's library for Python, 7.36.2.

use super::*;
use crate::avro::tests::bytes;

const MOST: usize = 1 << 20;

const ORDER: &str = r#"
    syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    message Head { int32 a = 1; }
    message Order {
      enum State { NEW = 0; PAID = 1; }
      map<string, int64> counts = 1;
      message Item { string name = 1; double price = 2; }
      repeated Item items = 2;
      State state = 3;
      int64 id = 4;
      bytes raw = 5;
      google.protobuf.Timestamp at = 6;
      oneof contact { string mail = 7; uint64 phone = 8; }
      optional int32 maybe = 9;
    }"#;

/// The same file as a descriptor, which Python's serializer registers.
const DESCRIPTOR: &str = "CgtvcmRlci5wcm90bxIEc2hvcBofZ29vZ2xlL3Byb3RvYnVmL3RpbWVzdGFtcC5wcm90byIRCgRIZWFkEgkKAWEYASABKAUi\
    7gIKBU9yZGVyEicKBmNvdW50cxgBIAMoCzIXLnNob3AuT3JkZXIuQ291bnRzRW50cnkSHwoFaXRlbXMYAiADKAsyEC5zaG9wLk9yZGVyLkl0ZW0S\
    IAoFc3RhdGUYAyABKA4yES5zaG9wLk9yZGVyLlN0YXRlEgoKAmlkGAQgASgDEgsKA3JhdxgFIAEoDBImCgJhdBgGIAEoCzIaLmdvb2dsZS5wcm90\
    b2J1Zi5UaW1lc3RhbXASDgoEbWFpbBgHIAEoCUgAEg8KBXBob25lGAggASgESAASEgoFbWF5YmUYCSABKAVIAYgBARotCgtDb3VudHNFbnRyeRIL\
    CgNrZXkYASABKAkSDQoFdmFsdWUYAiABKAM6AjgBGiMKBEl0ZW0SDAoEbmFtZRgBIAEoCRINCgVwcmljZRgCIAEoASIaCgVTdGF0ZRIHCgNORVcQ\
    ABIICgRQQUlEEAFCCQoHY29udGFjdEIICgZfbWF5YmViBnByb3RvMw==";

const GOLDEN: &str = "0a0a0a016b10808080808020120c0a016e11000000000000f83f180120fbffffffffffffffff012a0200ff\
                      320b0880e2cfaa0610c096b1023a036d40784800";

const JSON: &str = r#"{"counts":{"k":"1099511627776"},"items":[{"name":"n","price":1.5}],"state":"PAID","id":"-5","raw":"AP8=","at":"2023-11-14T22:13:20.005Z","mail":"m@x","maybe":0}"#;

fn file(text: &str) -> Protobuf {
    Protobuf::parse(text, []).unwrap()
}

#[test]
fn golden_message_decodes_and_encodes() {
    for text in [ORDER, DESCRIPTOR] {
        let message = file(text).message(&[1]).unwrap();
        assert_eq!(decode(message.clone(), &bytes(GOLDEN), MOST).unwrap(), JSON);
        assert_eq!(encode(message, JSON).unwrap(), bytes(GOLDEN));
    }
}

#[test]
fn messages_are_found_by_name_or_position() {
    for text in [ORDER, DESCRIPTOR] {
        let file = file(text);
        let check = |name: Option<&str>, full: &str, place: &[usize]| {
            let (message, found) = file.named(name).unwrap();
            assert_eq!((message.full_name(), found.as_slice()), (full, place));
            assert_eq!(file.message(&found).unwrap(), message);
        };
        check(None, "shop.Head", &[0]);
        check(Some("Order"), "shop.Order", &[1]);
        check(Some("shop.Order.Item"), "shop.Order.Item", &[1, 1]);
        let uncounted = file.message(&[1, 0]).unwrap();
        assert_eq!(uncounted.full_name(), "shop.Order.Item", "by a serializer that skips entries of maps");
        assert_eq!((file.message(&[]), file.message(&[9]), file.message(&[1, 7])), (None, None, None));
        let error = file.named(Some("Nope")).unwrap_err();
        assert_eq!(error, "there is no message Nope; there are shop.Head, shop.Order, shop.Order.Item");
    }
}

#[test]
fn defaults_are_shown() {
    let message = file(ORDER).message(&[1]).unwrap();
    let json = decode(message, &[], MOST).unwrap();
    assert_eq!(json, r#"{"counts":{},"items":[],"state":"NEW","id":"0","raw":""}"#);
}

#[test]
fn protobuf_imports_are_references_or_well_known() {
    let text = "syntax = \"proto3\"; import \"a/b.proto\"; import \"confluent/meta.proto\"; \
                import \"confluent/type/decimal.proto\"; \
                message M { a.B b = 1 [(confluent.field_meta).doc = \"x\"]; confluent.type.Decimal d = 2; }";
    let import = "syntax = \"proto3\"; package a; message B { int32 n = 1; }";
    let file = Protobuf::parse(text, [("a/b.proto", import)]).unwrap();
    let json = decode(file.message(&[0]).unwrap(), &[0x0a, 2, 8, 5], MOST).unwrap();
    assert_eq!(json, r#"{"b":{"n":5}}"#);
    let error = Protobuf::parse(text, []).unwrap_err();
    assert!(error.contains("a/b.proto"), "{error}");
    let circle = "syntax = \"proto3\"; import \"a/b.proto\";";
    let error = Protobuf::parse(text, [("a/b.proto", circle)]).unwrap_err();
    assert!(error.contains("cycl"), "{error}");
}

#[test]
fn protobuf_type_errors_name_the_field() {
    let message = file(ORDER).message(&[1]).unwrap();
    let check = |json: &str, path: &str, reason: &str| {
        let error = encode(message.clone(), json).unwrap_err();
        assert!(error.starts_with(path) && error.contains(reason), "{json}: {error}");
    };
    check(r#"{"items":[{"name":"n"},{"price":"x"}]}"#, "items[1].price: ", "");
    check(r#"{"nope":1}"#, "nope: ", "unrecognized field name");
    check(r#"{"state":"GONE"}"#, "state: ", "GONE");
    check("{", "", "EOF");
    check("{}}", "", "trailing");
    check("5", "", "");
}

#[test]
fn damaged_messages_are_errors() {
    let message = file(ORDER).message(&[1]).unwrap();
    for bytes in [&[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0x12, 5, 0], &[0xff; 20], &[0x20]] {
        decode(message.clone(), bytes, MOST).unwrap_err();
    }
    let error = decode(message, &bytes(GOLDEN), 40).unwrap_err();
    assert_eq!(error, "its JSON has more than 40 bytes");
}

/// A length and its bytes, after the tag of a field.
fn wrapped(tag: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let mut left = inner.len();
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
    out.extend_from_slice(inner);
    out
}

#[test]
fn deep_messages_end_with_an_error() {
    let nodes = file("syntax = \"proto3\"; message N { N n = 1; }").message(&[0]).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..5000 {
        bytes = wrapped(0x0a, &bytes);
    }
    let error = decode(nodes, &bytes, MOST).unwrap_err();
    assert!(error.contains("recursion"), "{error}");
    let text =
        "syntax = \"proto3\"; import \"google/protobuf/any.proto\"; message M { google.protobuf.Any a = 1; }";
    let any = file(text).message(&[0]).unwrap();
    let url = wrapped(0x0a, b"x/google.protobuf.Any");
    let mut bytes = Vec::new();
    for _ in 0..5000 {
        bytes = [url.clone(), wrapped(0x12, &bytes)].concat();
    }
    let error = decode(any, &wrapped(0x0a, &bytes), MOST).unwrap_err();
    assert!(error.contains("inside of each other"), "{error}");
}

#[test]
fn deep_files_are_refused() {
    let text =
        |depth: usize| format!("syntax = \"proto3\"; {} {}", "message A {".repeat(depth), "}".repeat(depth));
    assert!(Protobuf::parse(&text(30), []).is_ok());
    let error = Protobuf::parse(&text(100_000), []).unwrap_err();
    assert!(error.contains("more than 64 brackets"), "{error}");
    let brackets = "{".repeat(1000);
    let quiet = format!(
        "syntax = \"proto3\"; // {brackets}\n/* {brackets} */ message A {{ string a = 1 [json_name = \"{brackets}\"]; }}"
    );
    assert!(Protobuf::parse(&quiet, []).is_ok());
}

#[test]
fn invalid_protobuf_files_are_refused() {
    for text in
        ["", "syntax = \"proto3\"; message M { Nope n = 1; }", "message", "{\"type\":\"int\"}", "AAAA"]
    {
        let parsed = Protobuf::parse(text, []);
        let none = parsed.and_then(|file| file.named(None).map(|_| ()));
        none.unwrap_err();
    }
}
