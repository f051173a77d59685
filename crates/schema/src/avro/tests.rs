//! Tests of Avro. The golden bytes are those of fastavro 1.13.1.

use serde_json::json;

use super::decode::Damage;
use super::*;

const MOST: usize = 1 << 20;

fn order() -> Avro {
    let schema = json!({"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": null},
        {"name": "either", "type": ["null", "string", "long"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "raw", "type": "bytes"},
        {"name": "ok", "type": "boolean"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "next", "type": ["null", "Order"]}]});
    Avro::parse([schema.to_string().as_str()]).unwrap()
}

/// An order in an order, as fastavro writes it.
const GOLDEN: &str = "8080808080400d0206c3a4220480808080804004fb2e04026102620002027802000200ff0401fe01cdcccc3d\
                      7dc39425ad49b25402020d0206c3a422040204fb2e04026102620002027802000200ff0401fe01cdcccc3d\
                      7dc39425ad49b25400";

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn decoded(schema: &str, bytes: &[u8]) -> Result<String, Damage> {
    Avro::parse([schema]).unwrap().decode(bytes, MOST)
}

fn encoded(schema: &str, json: &Value) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let written = Avro::parse([schema]).unwrap().encode(json, &mut out);
    written.map(|()| out).map_err(|misfit| misfit.to_string())
}

#[test]
fn golden_record_decodes_and_encodes() {
    let inner = |id: i64, next: &str| {
        format!(
            "{{\"id\":{id},\"small\":-7,\"note\":\"ä\\\"\",\"either\":{{\"long\":{id}}},\"price\":\"-12.34\",\
             \"tags\":[\"a\",\"b\"],\"counts\":{{\"x\":1}},\"state\":\"PAID\",\"hash\":\"\\u0000ÿ\",\
             \"raw\":\"\\u0001þ\",\"ok\":true,\"f\":0.1,\"d\":1e100,\"next\":{next}}}"
        )
    };
    let json = order().decode(&bytes(GOLDEN), MOST).unwrap();
    assert_eq!(json.replace("1e+100", "1e100"), inner(1 << 40, &inner(1, "null")));
    let mut out = Vec::new();
    order().encode(&serde_json::from_str(&json).unwrap(), &mut out).unwrap();
    assert_eq!(out, bytes(GOLDEN));
    assert_eq!(order().name(), "shop.Order");
}

#[test]
fn cut_record_is_damaged() {
    let golden = bytes(GOLDEN);
    for end in 0..golden.len() {
        order().decode(&golden[..end], MOST).unwrap_err();
    }
    let longer = [&golden[..], &[0, 0]].concat();
    assert_eq!(order().decode(&longer, MOST), Err(Damage::Rest(2)));
}

#[test]
fn hostile_lengths_allocate_nothing() {
    let mut huge = Vec::new();
    crate::frame::push_varint(&mut huge, i64::MAX);
    for schema in [r#""bytes""#, r#""string""#, r#"{"type":"map","values":"null"}"#] {
        assert!(matches!(decoded(schema, &huge), Err(Damage::End(_))), "{schema}");
    }
    let nothing = r#"{"type":"array","items":"null"}"#;
    assert_eq!(decoded(nothing, &huge), Err(Damage::Long(MOST)));
    huge.clear();
    crate::frame::push_varint(&mut huge, i64::MIN);
    huge.push(0);
    assert_eq!(decoded(nothing, &huge), Err(Damage::Long(MOST)));
    assert!(decoded(r#""string""#, &[1]).unwrap_err().to_string().contains("negative length"));
    assert!(decoded(r#"["null","int"]"#, &[8]).unwrap_err().to_string().contains("no type 4"));
    assert!(decoded(r#""string""#, &[2, 0xff]).unwrap_err().to_string().contains("not UTF-8"));
}

#[test]
fn deep_values_end_with_an_error() {
    let list = r#"{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]}]}"#;
    assert_eq!(decoded(list, &vec![2; 300_000]), Err(Damage::Depth));
    let endless = r#"{"type":"record","name":"N","fields":[{"name":"n","type":"N"}]}"#;
    assert_eq!(decoded(endless, &[]), Err(Damage::Depth));
    let mut value = Value::Null;
    for _ in 0..110 {
        value = json!({"n": value});
    }
    assert!(encoded(list, &value).unwrap_err().contains("deeper than"));
}

#[test]
fn avro_type_errors_name_the_field() {
    let schema = r#"{"type":"record","name":"a.R","fields":[
        {"name":"items","type":{"type":"array","items":{"type":"record","name":"I","fields":[
            {"name":"n","type":"int"},{"name":"s","type":["null","string"],"default":null}]}}}]}"#;
    let check = |json: Value, expected: &str| assert_eq!(encoded(schema, &json).unwrap_err(), expected);
    check(json!({"items": [{"n": 1}, {"n": "x"}]}), "items[1].n: expected int, found \"x\"");
    check(json!({"items": [{"n": 1, "s": 5}]}), "items[0].s: expected one of null, string, found 5");
    check(json!({"items": [{}]}), "items[0].n: the field is missing; expected int");
    check(json!({"items": [{"n": 1, "m": 2}]}), "items[0]: a.I has no field \"m\"; it has n, s");
    check(json!([]), "expected record a.R, found []");
    check(json!({"items": [{"n": 3_000_000_000_i64}]}), "items[0].n: expected int, found 3000000000");
    assert_eq!(encoded(schema, &json!({"items": [{"n": 1}]})), Ok(vec![2, 2, 0, 0]));
}

#[test]
fn unions_take_names_or_first_fit() {
    let union = r#"["null","int","string",{"type":"map","values":"int"}]"#;
    let check = |json: Value, expected: &[u8]| {
        let bytes = encoded(union, &json).unwrap();
        assert_eq!(bytes, expected, "{json}");
        assert_eq!(
            encoded(union, &serde_json::from_str(&decoded(union, &bytes).unwrap()).unwrap()),
            Ok(bytes)
        );
    };
    check(Value::Null, &[0]);
    check(json!(5), &[2, 10]);
    check(json!({"int": 5}), &[2, 10]);
    check(json!("int"), &[4, 6, b'i', b'n', b't']);
    check(json!({"a": 1}), &[6, 2, 2, b'a', 2, 0]);
    check(json!({"int": 1, "a": 1}), &[6, 4, 2, b'a', 2, 6, b'i', b'n', b't', 2, 0]);
    assert!(encoded(union, &json!({"int": "x"})).unwrap_err().contains("expected int, found \"x\""));
    assert!(encoded(union, &json!(true)).unwrap_err().contains("one of null, int, string, map, found true"));
}

#[test]
fn decimals_keep_their_digits() {
    for (text, scale, expected) in
        [("0", 0, vec![0]), ("1.28", 2, vec![0, 128]), ("-1.28", 2, vec![128]), ("-0.05", 2, vec![0xfb])]
    {
        assert_eq!(decimal::bytes(text, scale, None), Some(expected.clone()), "{text}");
        assert_eq!(decimal::shown(&expected, scale).as_deref(), Some(text));
    }
    assert_eq!(decimal::bytes("1", 2, Some(3)), Some(vec![0, 0, 100]));
    for text in ["", "-", "1.234", "1e3", "x", &"9".repeat(40)] {
        assert_eq!(decimal::bytes(text, 2, None), None, "{text:?}");
    }
    assert_eq!(decimal::bytes("300", 0, Some(1)), None);
    let highest = i128::MIN.to_be_bytes();
    assert_eq!(decimal::shown(&highest, 0), Some(i128::MIN.to_string()));
    assert_eq!(decimal::shown(&[0; 17], 0), None);
}

#[test]
fn infinity_and_nan_become_strings() {
    for (number, text) in
        [(f64::NAN, "\"NaN\""), (f64::INFINITY, "\"Infinity\""), (-f64::INFINITY, "\"-Infinity\"")]
    {
        assert_eq!(decoded("\"double\"", &number.to_le_bytes()).unwrap(), text);
        assert_eq!(encoded("double", &serde_json::from_str(text).unwrap()).unwrap(), number.to_le_bytes());
    }
}

#[test]
fn invalid_avro_schemas_are_refused() {
    let check = |schema: &str, expected: &str| {
        let error = Avro::parse([schema]).unwrap_err();
        assert!(error.contains(expected), "{schema}: {error}");
    };
    check("{", "type { is not defined");
    check("1", "expected a type, found 1");
    check(r#"{"name":"a"}"#, "has no \"type\"");
    check(r#""no.Such""#, "type no.Such is not defined");
    check(r#"{"type":"record","name":"R"}"#, "no list \"fields\"");
    check(r#"{"type":"record","fields":[]}"#, "has no name");
    check(r#"{"type":"array"}"#, "array has no \"items\"");
    check(r#"[{"type":"fixed","name":"a","size":1},{"type":"fixed","name":"a","size":1}]"#, "defined twice");
    check(&format!("[{}]", vec!["\"int\""; TYPES_MAX + 1].join(",")), "more than 20000 types");
    check(&format!("{}\"int\"{}", r#"{"type":"#.repeat(200), "}".repeat(200)), "is not defined");
}

#[test]
fn references_are_types_by_name() {
    let inner = r#"{"type":"record","name":"x.A","fields":[{"name":"n","type":"int"}]}"#;
    let outer = r#"{"type":"record","name":"B","namespace":"x","fields":[{"name":"a","type":"A"}]}"#;
    let schema = Avro::parse([inner, outer]).unwrap();
    assert_eq!(schema.decode(&[4], MOST).unwrap(), r#"{"a":{"n":2}}"#);
    assert!(Avro::parse([outer]).unwrap_err().contains("type x.A is not defined"));
}
