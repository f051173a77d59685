//! Records with a schema: Confluent's serializers write what `levada consume` and the console read,
//! and `levada produce` writes what they read, with Apicurio Registry between them.
//!
//! Suite: long; 60 s; needs python, schemas; share operation

use std::path::PathBuf;

use levada_tests::registry::SchemaRegistry;
use levada_tests::{Node, Tool};
use serde_json::{Value, json};

const AVRO: &str = r#"{"type":"record","name":"Order","namespace":"shop","fields":[
    {"name":"id","type":"long"},
    {"name":"note","type":["null","string"],"default":null},
    {"name":"items","type":{"type":"array","items":{"type":"record","name":"Item","fields":[
        {"name":"name","type":"string"},{"name":"price","type":"double"}]}}}]}"#;

const PROTOBUF: &str = "syntax = \"proto3\";\npackage shop;\nmessage Head { int32 n = 1; }\nmessage Order {\n\
    int64 id = 1;\n  string note = 2;\n  repeated Item items = 3;\n\
    message Item { string name = 1; double price = 2; }\n}\n";

const JSON: &str = r#"{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object"}"#;

fn file(node: &Node, name: &str, text: &str) -> PathBuf {
    let path = node.scratch().join(name);
    std::fs::write(&path, text).expect("room");
    path
}

/// Lines of JSON that `levada consume` prints.
fn consumed(node: &Node, topic: &str, registry: &str) -> (Vec<Value>, String) {
    let said = node.levada(&format!("consume {topic} -e --output json --schema-registry {registry}")).run();
    let lines = said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    (lines.collect(), said.stderr)
}

#[test]
fn confluents_records_are_shown_as_json() {
    let registry = SchemaRegistry::started();
    let node = Node::new().option("schema.registry.url", &registry.url());
    let mut node = node;
    node.start();
    node.levada("topic create orders -p 1").run();
    let mut writer = Tool::schemas_python("schemas.py");
    writer.args(["produce", &node.bootstrap(), &registry.url(), "orders"]).run();
    // A value without a schema, one whose schema is not in the registry, and a truncated one.
    let lines = file(
        &node,
        "lines",
        "{\"key\":\"plain\",\"value\":\"\\u0001text\"}\n{\"key\":\"none\",\"value_base64\":\"AAAAJw8A\"}\n",
    );
    node.levada("produce orders --input json").stdin(&lines).run();

    let (records, said) = consumed(&node, "orders", &registry.url());
    let by_key = |key: &str| {
        records.iter().find(|record| record["key"] == key).unwrap_or_else(|| panic!("{key}: {records:?}"))
    };
    let order = json!({"id": 1_u64 << 40, "note": "für", "items": [{"name": "a", "price": 1.5}]});
    let avro = by_key("avro");
    assert_eq!(avro["value"], order, "{avro}");
    let schema = &avro["value_schema"];
    assert_eq!(
        (&schema["type"], &schema["name"], &schema["subject"], &schema["version"]),
        (&json!("AVRO"), &json!("shop.Order"), &json!("orders-avro-value"), &json!(1)),
        "{schema}"
    );
    let latest = registry.api("/subjects/orders-avro-value/versions/latest");
    assert_eq!(schema["id"], latest["id"]);
    let protobuf = by_key("protobuf");
    let expected = json!({"id": "1099511627776", "note": "für", "items": [{"name": "a", "price": 1.5}]});
    assert_eq!((&protobuf["value"], &protobuf["value_schema"]["name"]), (&expected, &json!("shop.Order")));
    let plain = by_key("json");
    assert_eq!(
        (&plain["value"], &plain["value_schema"]["type"]),
        (&json!({"id": 5, "more": [1, "x"]}), &json!("JSON"))
    );
    assert_eq!(
        (&by_key("plain")["value"], &by_key("plain")["value_schema"]),
        (&json!("\u{1}text"), &Value::Null)
    );
    let none = by_key("none");
    assert!(none["value_error"].as_str().is_some_and(|text| text.contains("has no schema 9999")), "{none}");
    assert_eq!(said.matches("not decoded").count(), 1, "{said}");
    let text = node
        .levada(&format!("consume orders -e --grep shop.never --schema-registry {}", registry.url()))
        .run();
    assert_eq!(text.stdout, "");
    let raw = node.levada("consume orders -e --output json").run().stdout;
    assert!(raw.contains("value_base64") && !raw.contains("value_schema"), "{raw}");

    let page = |query: &str| {
        let (status, body) = node.http(&format!("/topics/orders/messages?{query}"));
        assert_eq!(status, 200, "{body}");
        body
    };
    let all = page("");
    let name = format!("Avro, schema {}, shop.Order (orders-avro-value version 1)", latest["id"]);
    assert!(all.contains(&name) && all.contains("Protobuf, schema"), "{all}");
    assert!(all.contains("not decoded: the schema registry"), "{all}");
    let found = page("value=%221099511627776%22");
    assert!(found.contains("1 record shown") && found.contains("Protobuf, schema"), "{found}");
}

#[test]
fn produced_records_have_confluents_format() {
    let registry = SchemaRegistry::started();
    let node = Node::started();
    let url = registry.url();
    let line = |line: &str| format!("{line} --schema-registry {url}");
    for (name, text, subject) in [
        ("o.avsc", AVRO, "avro-value"),
        ("o.proto", PROTOBUF, "protobuf-value"),
        ("o.json", JSON, "json-value"),
    ] {
        let path = file(&node, name, text);
        node.levada(&line(&format!("schema register {subject} {}", path.display()))).run();
    }
    let listed = node.levada(&line("schema list")).run().stdout;
    for words in [["avro-value", "AVRO"], ["protobuf-value", "PROTOBUF"], ["json-value", "JSON"]] {
        assert!(listed.lines().any(|line| words.iter().all(|word| line.contains(word))), "{listed}");
    }
    let shown = node.levada(&line("schema get avro-value:1")).run().stdout;
    assert!(shown.contains("shop"), "{shown}");

    let order = r#"{"id":7,"note":"x","items":[{"name":"a","price":2}]}"#;
    for (topic, schema, language) in [
        ("avro", "latest", "AVRO"),
        ("protobuf", "protobuf-value:1#Order", "PROTOBUF"),
        ("json", "latest", "JSON"),
    ] {
        node.levada(&format!("topic create {topic} -p 1")).run();
        let input = file(&node, "input", &format!("{order}\n"));
        node.levada(&line(&format!("produce {topic} --value-schema {schema}"))).stdin(&input).run();
        let mut reader = Tool::schemas_python("schemas.py");
        let found = reader.args(["consume", &node.bootstrap(), &url, topic, language, "1"]).run().stdout;
        let found: Value = serde_json::from_str(&found).expect("JSON");
        let id = if language == "PROTOBUF" { json!("7") } else { json!(7) };
        assert_eq!(
            found,
            json!({"id": id, "note": "x", "items": [{"name": "a", "price": if language == "JSON" { json!(2) } else { json!(2.0) }}]})
        );
    }
    let wrong = file(
        &node,
        "wrong",
        &format!("{order}\n{{\"id\":1,\"items\":[{{\"name\":\"a\",\"price\":\"x\"}}]}}\n"),
    );
    let (code, said) = node.levada(&line("produce avro --value-schema latest")).stdin(&wrong).outcome();
    assert_eq!(code, Some(1), "{said:?}");
    let expected = "line 2: the value does not fit its schema: items[0].price: expected double, found \"x\"";
    assert!(said.stderr.contains(expected), "{said:?}");

    // Another topic gets the same records.
    let (records, _) = consumed(&node, "avro", &url);
    assert_eq!(records.len(), 2, "the line before the wrong one is produced: {records:?}");
    let copied: String = records.iter().map(|record| format!("{record}\n")).collect();
    node.levada("topic create copy -p 1").run();
    let input = file(&node, "copied", &copied);
    node.levada(&line("produce copy --input json --value-schema avro-value")).stdin(&input).run();
    let values = |records: Vec<Value>| -> Vec<Value> {
        records.into_iter().map(|record| record["value"].clone()).collect()
    };
    assert_eq!(values(consumed(&node, "copy", &url).0), values(records));
}

#[test]
fn commands_work_while_registry_is_silent() {
    let node = Node::started();
    node.levada("topic create t -p 1").run();
    let lines = file(&node, "lines", "{\"value_base64\":\"AAAAAAH/\"}\n{\"value\":\"plain\"}\n");
    node.levada("produce t --input json").stdin(&lines).run();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let (records, said) = consumed(&node, "t", &url);
    assert_eq!((records.len(), &records[1]["value"]), (2, &json!("plain")));
    assert_eq!(records[0]["value_base64"], "AAAAAAH/");
    assert!(said.contains("not decoded: no response from the schema registry"), "{said}");
    let (code, said) = node.levada(&format!("produce t --value-schema 1 --schema-registry {url}")).outcome();
    assert!(code == Some(1) && said.stderr.contains("no response from the schema registry"), "{said:?}");
    let (code, said) = node.levada("produce t --value-schema 1").outcome();
    assert!(code == Some(2) && said.stderr.contains("no schema registry is named"), "{said:?}");
}
