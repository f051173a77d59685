//! Client telemetry (KIP-714): the responses to both requests as Kafka gives them, clients that
//! push, and payloads that no client sends. A real Kafka takes metrics by a plug-in of
//! `tests/java`.
//!
//! Suite: long; 15 s; needs java, python; share streams

use std::io::Write;
use std::time::Duration;

use flate2::write::GzEncoder;
use levada_client::{Connection, ConnectionOptions};
use levada_tests::node::Kind;
use levada_tests::{Node, Tool, await_some, http};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use levada_wire::messages::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, IncrementalAlterConfigsRequest,
    PushTelemetryRequest,
};
use levada_wire::{ApiKey, StrBytes, Uuid};
use lz4_flex::frame::FrameEncoder;

const LIMIT: Duration = Duration::from_secs(60);

/// `telemetry.max.bytes` of the nodes.
const BYTES_MAX: usize = 20_000;

/// Kinds of configuration resources, and operations on their keys.
const CLIENT_METRICS: i8 = 16;
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Codecs by their numbers.
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

fn start(options: &[(&str, &str)]) -> Node {
    let node = Node::new();
    let is_set = options.iter().any(|(key, _)| *key == "telemetry.max.bytes");
    let node = if is_set { node } else { node.option("telemetry.max.bytes", &BYTES_MAX.to_string()) };
    let node = match Kind::under_test() {
        Kind::Kafka => node.option("metric.reporters", "TelemetryReader"),
        Kind::Levada => node,
    };
    let mut node = options.iter().fold(node, |node, (key, value)| node.option(key, value));
    node.start();
    node
}

fn connect(node: &Node, client_id: &str) -> Connection {
    let options = ConnectionOptions { client_id: client_id.to_owned(), ..ConnectionOptions::default() };
    Connection::connect(&node.bootstrap(), &options).expect("the broker accepts")
}

/// Sets the keys of a subscription, or deletes them where there is no value.
fn subscribe(node: &Node, name: &str, keys: &[(&str, Option<&str>)]) {
    let mut resource = AlterConfigsResource::default();
    resource.resource_type = CLIENT_METRICS;
    resource.resource_name = StrBytes::from(name);
    let key = |(name, value): &(&str, Option<&str>)| {
        let mut key = AlterableConfig::default();
        key.name = StrBytes::from(*name);
        key.config_operation = if value.is_some() { SET } else { DELETE };
        key.value = value.map(StrBytes::from);
        key
    };
    resource.configs = keys.iter().map(key).collect();
    let mut request = IncrementalAlterConfigsRequest::default();
    request.resources = vec![resource];
    let answer = connect(node, "operator").request(&request).expect("an answer");
    assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
}

fn get(client: &mut Connection, instance: Uuid) -> GetTelemetrySubscriptionsResponse {
    let mut request = GetTelemetrySubscriptionsRequest::default();
    request.client_instance_id = instance;
    client.request_at(0, &request).expect("an answer")
}

/// A push that is in order, apart from what the test changes.
fn push(instance: Uuid, subscription_id: i32, metrics: Vec<u8>) -> PushTelemetryRequest {
    let mut request = PushTelemetryRequest::default();
    request.client_instance_id = instance;
    request.subscription_id = subscription_id;
    request.metrics = metrics.into();
    request
}

fn pushed(client: &mut Connection, request: &PushTelemetryRequest) -> ErrorCode {
    let answer = client.request_at(0, request).expect("an answer");
    ErrorCode::of_code(answer.error_code).expect("a known code")
}

fn id(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

/// A field of a message with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("a short field");
    let mut field = vec![number << 3 | 2];
    field.extend([length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8]);
    field.extend(content);
    field
}

/// `MetricsData` with one gauge.
fn payload(name: &str, value: f64) -> Vec<u8> {
    let point = [&[4 << 3 | 1][..], &value.to_le_bytes()].concat();
    let metric = [field(1, name.as_bytes()), field(5, &field(1, &point))].concat();
    field(1, &field(2, &field(2, &metric)))
}

/// Bytes in the framing that Kafka's clients give a codec.
fn compressed(codec: &str, bytes: &[u8]) -> Vec<u8> {
    let mut compressed = Vec::new();
    match codec {
        "gzip" => {
            let mut encoder = GzEncoder::new(&mut compressed, flate2::Compression::default());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("it compresses");
        }
        "snappy" => {
            let block = snap::raw::Encoder::new().compress_vec(bytes).expect("it compresses");
            // The magic number of the framing, its versions, and the length of the one block.
            compressed.extend(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
            compressed.extend(u32::try_from(block.len()).expect("a short block").to_be_bytes());
            compressed.extend(block);
        }
        "lz4" => {
            let mut encoder = FrameEncoder::new(&mut compressed);
            encoder.write_all(bytes).expect("it compresses");
            encoder.finish().expect("it compresses");
        }
        "zstd" => compressed = zstd::encode_all(bytes, 0).expect("it compresses"),
        _ => compressed.extend(bytes),
    }
    compressed
}

/// A subscription for the clients of the tests, in force.
fn subscribed(node: &Node) {
    let interval = Some("60000");
    subscribe(
        node,
        "probes",
        &[
            ("metrics", Some("org.apache.kafka.producer.,org.apache.kafka.consumer.fetch.manager.")),
            ("interval.ms", interval),
            (
                "match",
                Some(
                    "client_id=probe.*,client_software_name=lev[a-z]+,client_source_address=127\\.0\\.0\\.1",
                ),
            ),
        ],
    );
    await_metrics(node, |answer| !answer.requested_metrics.is_empty());
}

/// Waits until a new client gets a response that is meant.
fn await_metrics(node: &Node, is_meant: impl Fn(&GetTelemetrySubscriptionsResponse) -> bool) {
    await_some("the subscription is in force", LIMIT, || {
        let answer = get(&mut connect(node, "probe-await"), Uuid::ZERO);
        is_meant(&answer).then_some(())
    });
}

#[test]
fn telemetry_responses_match_kafka() {
    let node = start(&[]);
    subscribed(&node);
    let mut client = connect(&node, "probe-1");
    assert!(client.versions().iter().any(|api| api.key == ApiKey::PushTelemetry.wire()));
    let answer = get(&mut client, id(7));
    let facts =
        (answer.error_code, answer.subscription_id, answer.push_interval_ms, answer.telemetry_max_bytes);
    assert_eq!(facts, (0, -164_483_261, 60_000, BYTES_MAX as i32), "{answer:?}");
    assert_eq!((answer.client_instance_id, answer.delta_temporality), (id(7), true));
    assert_eq!(answer.accepted_compression_types, [4, 3, 1, 2]);
    let metrics: Vec<&str> = answer.requested_metrics.iter().map(|metric| metric.as_str()).collect();
    assert_eq!(metrics, ["org.apache.kafka.producer.", "org.apache.kafka.consumer.fetch.manager."]);
    let subscription = answer.subscription_id;
    assert_eq!(get(&mut client, id(7)).error_code, ErrorCode::ThrottlingQuotaExceeded.code());
    // The first push may come immediately, the next one may not.
    assert_eq!(pushed(&mut client, &push(id(7), subscription, payload("a", 1.0))), ErrorCode::None);
    let early = pushed(&mut client, &push(id(7), subscription, payload("a", 1.0)));
    assert_eq!(early, ErrorCode::ThrottlingQuotaExceeded);
    // A new client without an id gets one each time.
    let named = get(&mut connect(&node, "probe-2"), Uuid::ZERO);
    assert!(named.error_code == 0 && named.client_instance_id != Uuid::ZERO, "{named:?}");
    // A client that no subscription matches.
    let other = get(&mut connect(&node, "other"), id(8));
    assert_eq!((other.requested_metrics.len(), other.push_interval_ms, other.error_code), (0, 300_000, 0));
    // An instance ends with its connection.
    drop(client);
    await_some("the instance has ended", LIMIT, || {
        (get(&mut connect(&node, "probe-1"), id(7)).error_code == 0).then_some(())
    });
}

#[test]
fn telemetry_refusals_match_kafka() {
    let node = start(&[]);
    subscribed(&node);
    let mut client = connect(&node, "probe-1");
    for reserved in [Uuid::ZERO, Uuid::from_bytes(1_u128.to_be_bytes())] {
        assert_eq!(pushed(&mut client, &push(reserved, 1, payload("a", 1.0))), ErrorCode::InvalidRequest);
    }
    // After these two the client may ask again immediately.
    assert_eq!(pushed(&mut client, &push(id(20), 1, payload("a", 1.0))), ErrorCode::UnknownSubscriptionId);
    assert_eq!(get(&mut client, id(20)).error_code, 0);
    let subscription = get(&mut client, id(23)).subscription_id;
    let mut unknown = push(id(23), subscription, payload("a", 1.0));
    unknown.compression_type = 9;
    assert_eq!(pushed(&mut client, &unknown), ErrorCode::UnsupportedCompressionType);
    assert_eq!(get(&mut client, id(23)).error_code, 0);
    let subscription = get(&mut client, id(24)).subscription_id;
    let large = push(id(24), subscription, vec![0; BYTES_MAX + 1]);
    assert_eq!(pushed(&mut client, &large), ErrorCode::TelemetryTooLarge);
    // The last push may come early. The next one is refused, and the one after that is early.
    let subscription = get(&mut client, id(21)).subscription_id;
    let mut last = push(id(21), subscription, payload("a", 1.0));
    last.terminating = true;
    assert_eq!(pushed(&mut client, &last), ErrorCode::None);
    last.terminating = false;
    assert_eq!(pushed(&mut client, &last), ErrorCode::InvalidRequest);
    assert_eq!(pushed(&mut client, &last), ErrorCode::ThrottlingQuotaExceeded);
    // A change of the subscriptions lets the client ask immediately.
    assert_eq!(get(&mut client, id(22)).error_code, 0);
    subscribe(&node, "probes", &[("interval.ms", Some("50000"))]);
    await_metrics(&node, |answer| answer.push_interval_ms == 50_000);
    assert_eq!(get(&mut client, id(22)).push_interval_ms, 50_000);
    assert_eq!(get(&mut client, id(22)).error_code, ErrorCode::ThrottlingQuotaExceeded.code());
}

#[test]
fn large_telemetry_pushes_count_against_their_connection() {
    let node = start(&[("telemetry.max.bytes", "1000000")]);
    subscribed(&node);
    let mut client = connect(&node, "probe-1");
    let subscription = get(&mut client, id(25)).subscription_id;
    // A field that no reader knows, beside a gauge.
    let large = [payload("a", 1.0), field(15, &vec![0; 200_000])].concat();
    let large = push(id(25), subscription, large);
    assert_eq!(pushed(&mut client, &large), ErrorCode::None);
    assert_eq!(pushed(&mut client, &large), ErrorCode::ThrottlingQuotaExceeded);
}

#[test]
fn telemetry_of_every_codec_is_decoded() {
    let node = start(&[("levada.client.telemetry.metrics", "probe.")]);
    subscribed(&node);
    let subscription = |client: &mut Connection, number: u8| get(client, id(number)).subscription_id;
    let mut client = connect(&node, "probe-codecs");
    let mut number = 30;
    let mut outcome = |codec: usize, metrics: Vec<u8>| {
        number += 1;
        let mut request = push(id(number), subscription(&mut client, number), metrics);
        request.compression_type = codec as i8;
        pushed(&mut client, &request)
    };
    for (codec, name) in CODECS.into_iter().enumerate() {
        let good = payload(&format!("probe.{name}"), 2.5);
        assert_eq!(outcome(codec, compressed(name, &good)), ErrorCode::None, "{name}");
        // The payload is a field of 2 GiB that is not there, or ends within a field.
        let claims = [0x0a, 0xff, 0xff, 0xff, 0xff, 0x07];
        assert_eq!(outcome(codec, compressed(name, &claims)), ErrorCode::InvalidRecord, "{name}");
        let cut = &good[..good.len() - 1];
        assert_eq!(outcome(codec, compressed(name, cut)), ErrorCode::InvalidRecord, "{name}");
        if codec > 0 {
            // A small payload that expands beyond the limit of a push, and one that does not.
            let bomb = compressed(name, &vec![0; 3 * BYTES_MAX]);
            assert!(bomb.len() < BYTES_MAX, "{name}");
            assert_eq!(outcome(codec, bomb), ErrorCode::InvalidRecord, "{name}");
            assert_eq!(outcome(codec, b"not compressed".to_vec()), ErrorCode::InvalidRecord, "{name}");
        }
    }
    assert_eq!(outcome(0, Vec::new()), ErrorCode::None, "a push without metrics");
    if Kind::under_test() == Kind::Levada {
        let (_, page) = http::page_as(node.http_address(), "/metrics", "");
        for name in CODECS {
            let start = format!("levada_client_metric{{metric=\"probe.{name}\",client_id=\"probe-codecs\",");
            assert!(page.lines().any(|line| line.starts_with(&start) && line.ends_with("} 2.5")), "{page}");
        }
    }
}

#[test]
fn hostile_telemetry_uses_little_memory() {
    let node = start(&[]);
    if Kind::under_test() == Kind::Kafka {
        return;
    }
    subscribed(&node);
    let resident = || {
        let (_, page) = http::page_as(node.http_address(), "/metrics", "");
        let line = page.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        line.expect("the metric").parse::<u64>().expect("a number")
    };
    let before = resident();
    // Empty messages: two bytes for each, in each list that a payload has.
    let empty = |number: u8| [number << 3 | 2, 0].repeat(BYTES_MAX / 4);
    let lists = [
        empty(1),
        field(1, &empty(2)),
        field(1, &field(2, &empty(2))),
        field(1, &field(2, &field(2, &field(5, &empty(1))))),
        field(1, &field(2, &field(2, &field(5, &field(1, &empty(7)))))),
        field(1, &field(1, &empty(1))),
    ];
    let mut client = connect(&node, "probe-hostile");
    for number in 0..200_u8 {
        let subscription = get(&mut client, id(number.max(2))).subscription_id;
        let list = lists[usize::from(number) % lists.len()].clone();
        let mut request = push(id(number.max(2)), subscription, list);
        request.terminating = true;
        // Numbers below 2 share an instance, whose last push has been.
        let code = pushed(&mut client, &request);
        assert!(
            matches!(code, ErrorCode::None | ErrorCode::UnknownSubscriptionId | ErrorCode::InvalidRequest),
            "{code:?}"
        );
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for 200 payloads of at most {BYTES_MAX} bytes");
}

#[test]
fn nothing_is_offered_without_subscription() {
    if Kind::under_test() == Kind::Kafka {
        return;
    }
    let node = start(&[]);
    let is_offered = || {
        let client = connect(&node, "probe");
        let keys: Vec<i16> = client.versions().iter().map(|api| api.key).collect();
        [ApiKey::GetTelemetrySubscriptions, ApiKey::PushTelemetry].map(|api| keys.contains(&api.wire()))
    };
    assert_eq!(is_offered(), [false, false]);
    subscribe(&node, "all", &[("metrics", Some("*"))]);
    assert_eq!(is_offered(), [true, true]);
    subscribe(&node, "all", &[("metrics", None)]);
    assert_eq!(is_offered(), [false, false]);
}

#[test]
fn clients_push_their_metrics() {
    if Kind::under_test() == Kind::Kafka {
        return;
    }
    let exported = "org.apache.kafka.producer.node.request.latency.,org.apache.kafka.consumer.fetch.manager.";
    let node = start(&[("levada.client.telemetry.metrics", exported), ("telemetry.max.bytes", "1000000")]);
    subscribe(&node, "all", &[("metrics", Some("org.apache.kafka.")), ("interval.ms", Some("500"))]);
    let bootstrap = node.bootstrap();
    let native = Tool::python("pushing.py").args([&bootstrap, "t"]).spawn();
    let mut java = Tool::own_java("Pushing").args([&bootstrap, "t"]).spawn();
    let pushed = |metric: &str, client: &str| {
        let start = format!("levada_client_metric{{metric=\"{metric}\",client_id=\"{client}\",");
        await_some(&format!("{client} pushes {metric}"), LIMIT, || {
            let (_, page) = http::page_as(node.http_address(), "/metrics", "");
            page.lines().any(|line| line.starts_with(&start)).then_some(())
        });
    };
    for client in ["c-producer", "java-producer"] {
        pushed("org.apache.kafka.producer.node.request.latency.avg", client);
    }
    pushed("org.apache.kafka.consumer.fetch.manager.fetch.latency.avg", "java-consumer");
    pushed("org.apache.kafka.consumer.fetch.manager.fetch.latency.avg", "c-consumer");
    let (_, page) = http::page_as(node.http_address(), "/clients?search=java", "");
    assert!(page.contains("java-producer") && page.contains("apache-kafka-java"), "{page}");
    assert!(!page.contains("c-producer"), "{page}");
    let link = page.split('"').find(|text| text.starts_with("/client?id=")).expect("a link to a client");
    let (_, page) = http::page_as(node.http_address(), link, "");
    assert!(page.contains("consumer.fetch.manager.") || page.contains("producer.node.request."), "{page}");
    // Java's consumer sends a last push when it is closed; its producer may be too quick.
    java.say("end");
    assert_eq!(java.finish(LIMIT), Vec::<String>::new());
    await_some("the last push", LIMIT, || {
        let (_, page) = http::page_as(node.http_address(), "/clients?search=java-consumer", "");
        page.contains("the last one").then_some(())
    });
    native.finish(LIMIT);
}
