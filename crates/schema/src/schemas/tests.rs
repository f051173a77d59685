//! Tests of decoding and encoding with a registry.

use std::sync::atomic::Ordering;

use serde_json::json;

use super::*;
use crate::known::Label;
use crate::registry::tests::Server;
use crate::registry::{Language, Place};

const LIMITS: Limits = Limits { payload: 1 << 16, json: 1 << 16 };

/// A schema of this many bytes.
pub(crate) fn known(text_bytes: usize) -> Arc<Known> {
    let (id, language, compiled) = (SchemaId::Number(1), Language::Json, Compiled::Json { title: None });
    Arc::new(Known { id, place: None, language, compiled, text_bytes })
}

fn source(language: &str, schema: &str, references: &serde_json::Value) -> String {
    json!({"schema": schema, "schemaType": language, "references": references}).to_string()
}

/// A registry with a schema of each language, and some that cannot be used.
fn server() -> Server {
    let none = json!([]);
    Server::answering(move |line| {
        let answer = match line {
            "GET /schemas/ids/1" => {
                source("AVRO", r#"{"type":"record","name":"A","fields":[{"name":"n","type":"int"}]}"#, &none)
            }
            "GET /schemas/ids/2" => source(
                "PROTOBUF",
                "syntax = \"proto3\"; message A { int32 n = 1; } message B { string s = 1; }",
                &none,
            ),
            "GET /schemas/ids/3" | "GET /schemas/guids/00000000-0000-0000-0000-000000000003" => {
                source("JSON", r#"{"title":"J","type":"object"}"#, &none)
            }
            "GET /schemas/ids/4" => source("AVRO", "{}", &none),
            "GET /schemas/ids/5" => source(
                "AVRO",
                r#"{"type":"record","name":"O","fields":[{"name":"i","type":"I"},{"name":"j","type":"I"}]}"#,
                &json!([{"name":"J","subject":"j","version":1},{"name":"I","subject":"i","version":1}]),
            ),
            "GET /subjects/j/versions/1" => json!({"subject": "j", "version": 1, "id": 21,
                "schema": r#"{"type":"array","items":"I"}"#,
                "references": [{"name":"I","subject":"i","version":1}]})
            .to_string(),
            "GET /subjects/i/versions/1" => json!({"subject": "i", "version": 1, "id": 20,
                "schema": r#"{"type":"fixed","name":"I","size":1}"#})
            .to_string(),
            "GET /schemas/ids/6" => source("AVRO", "\"x\"", &json!([{"name":"x","subject":"x","version":1}])),
            "GET /subjects/x/versions/1" => json!({"subject": "x", "version": 1, "id": 22,
                "schema": "\"x\"", "references": [{"name":"x","subject":"x","version":1}]})
            .to_string(),
            "GET /schemas/ids/1/versions" => json!([{"subject":"a-value","version":3}]).to_string(),
            _ => return (404, r#"{"error_code":40403,"message":"Schema not found"}"#.to_owned()),
        };
        (200, answer)
    })
}

fn decode(schemas: &Schemas, bytes: &[u8]) -> Result<(String, Label), String> {
    let decoded = schemas.decode(bytes, None, LIMITS).unwrap();
    decoded.map(|decoded| (decoded.json, decoded.label)).map_err(|fault| fault.to_string())
}

#[test]
fn each_language_is_decoded() {
    let schemas = Schemas::new(server().registry());
    let check = |bytes: &[u8], expected: &str, language: Language, name: &str| {
        let (json, label) = decode(&schemas, bytes).unwrap();
        assert_eq!((json.as_str(), label.language, label.name.as_deref()), (expected, language, Some(name)));
        label.place
    };
    let place = check(&[0, 0, 0, 0, 1, 6], r#"{"n":3}"#, Language::Avro, "A");
    assert_eq!(place, Some(Place { subject: "a-value".to_owned(), version: 3 }));
    check(&[0, 0, 0, 0, 2, 0, 8, 3], r#"{"n":3}"#, Language::Protobuf, "A");
    check(&[0, 0, 0, 0, 2, 2, 2, 10, 1, b'x'], r#"{"s":"x"}"#, Language::Protobuf, "B");
    check(b"\0\0\0\0\x03{ \"a b\":\n[1, \"\\\" \"] }", r#"{"a b":[1,"\" "]}"#, Language::Json, "J");
    check(&[0, 0, 0, 0, 5, b'a', b'b'], r#"{"i":"a","j":"b"}"#, Language::Avro, "O");
    let header = [&[1][..], &[0; 15], &[3]].concat();
    let decoded = schemas.decode(b"[1]", Some(&header), LIMITS).unwrap().unwrap();
    assert_eq!((decoded.json.as_str(), decoded.label.name.as_deref()), ("[1]", Some("J")));
    assert!(schemas.decode(b"plain", None, LIMITS).is_none());
}

#[test]
fn schema_errors_give_the_reason() {
    let schemas = Schemas::new(server().registry());
    let check = |bytes: &[u8], expected: &str| {
        let error = decode(&schemas, bytes).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    check(&[0, 0, 0, 0, 99], "has no schema 99 (Schema not found)");
    check(&[0, 0, 0, 0, 4], "schema 4 cannot be used: a type has no \"type\": {}");
    check(&[0, 0, 0, 0, 6], "schema 6 cannot be used: type x is not defined");
    check(&[0, 0, 0, 0, 1], "the bytes do not fit schema 1: the data ends inside of a value of type int");
    check(&[0, 0, 0, 0, 2, 2, 8], "schema 2: the file has no message at [4]");
    check(&[0, 0, 0, 0, 2, 3], "schema 2: the indexes of the message are malformed");
    check(b"\0\0\0\0\x03{", "schema 3: EOF");
    check(&[&[0, 0, 0, 0, 3][..], &"[".repeat(50_000).into_bytes()].concat(), "EOF while parsing a list");
    check(&[&[0, 0, 0, 0, 3][..], &[b' '; 1 << 17]].concat(), "131072 bytes, and at most 65536 are decoded");
}

#[test]
fn schema_is_fetched_once() {
    let server = server();
    let schemas = Schemas::new(server.registry());
    for _ in 0..5 {
        decode(&schemas, &[0, 0, 0, 0, 1, 6]).unwrap();
        decode(&schemas, &[0, 0, 0, 0, 99]).unwrap_err();
    }
    assert_eq!(server.requests.load(Ordering::SeqCst), 3, "schema, its versions, and the missing one");
}

#[test]
fn encoded_json_decodes_again() {
    let schemas = Schemas::new(server().registry());
    let check = |number: u32, message: Option<&str>, json: &str| {
        let encoder = schemas.encoder(number, message).unwrap();
        let bytes = encoder.encode(json).unwrap();
        assert_eq!(decode(&schemas, &bytes).unwrap().0, json);
        encoder
    };
    let avro = check(1, None, r#"{"n":-3}"#);
    assert_eq!(avro.encode(r#"{"n":"x"}"#), Err("n: expected int, found \"x\"".to_owned()));
    assert!(avro.encode("{").unwrap_err().starts_with("this is not JSON: EOF"));
    check(2, None, r#"{"n":3}"#);
    check(2, Some("B"), r#"{"s":"x"}"#);
    assert!(schemas.encoder(2, Some("C")).unwrap_err().to_string().contains("there are A, B"));
    check(3, None, r#"{"any":["thing"]}"#);
    assert!(schemas.encoder(98, None).unwrap_err().to_string().contains("no schema 98"));
}
