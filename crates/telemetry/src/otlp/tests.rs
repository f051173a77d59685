//! Tests of the reader: random messages that another implementation of Protocol Buffers encodes,
//! and payloads that no client sends.

use levada_testing::scaled;
use proptest::prelude::*;
use prost::Message;

use super::*;

/// Messages of OpenTelemetry's protocol, in the fields that the reader knows.
mod messages {
    use prost::{Message, Oneof};

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct MetricsData {
        #[prost(message, repeated, tag = "1")]
        pub(super) resource_metrics: Vec<ResourceMetrics>,
    }
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ResourceMetrics {
        #[prost(message, optional, tag = "1")]
        pub(super) resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub(super) scope_metrics: Vec<ScopeMetrics>,
        #[prost(string, tag = "3")]
        pub(super) schema_url: String,
    }
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub(super) attributes: Vec<KeyValue>,
        #[prost(uint32, tag = "2")]
        pub(super) dropped: u32,
    }
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct KeyValue {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<AnyValue>,
    }
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct AnyValue {
        #[prost(oneof = "Any", tags = "1, 2, 3, 4, 7")]
        pub(super) value: Option<Any>,
    }
    #[derive(Clone, PartialEq, Oneof)]
    pub(super) enum Any {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(bool, tag = "2")]
        Flag(bool),
        #[prost(int64, tag = "3")]
        Int(i64),
        #[prost(double, tag = "4")]
        Double(f64),
        #[prost(bytes, tag = "7")]
        Bytes(Vec<u8>),
    }
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ScopeMetrics {
        #[prost(message, repeated, tag = "2")]
        pub(super) metrics: Vec<Metric>,
    }
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Metric {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) description: String,
        #[prost(oneof = "Data", tags = "5, 7, 9")]
        pub(super) data: Option<Data>,
    }
    #[derive(Clone, PartialEq, Oneof)]
    pub(super) enum Data {
        #[prost(message, tag = "5")]
        Gauge(Sum),
        #[prost(message, tag = "7")]
        Sum(Sum),
        #[prost(message, tag = "9")]
        Histogram(Sum),
    }
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Sum {
        #[prost(message, repeated, tag = "1")]
        pub(super) points: Vec<NumberPoint>,
        #[prost(int32, tag = "2")]
        pub(super) temporality: i32,
        #[prost(bool, tag = "3")]
        pub(super) monotonic: bool,
    }
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct NumberPoint {
        #[prost(fixed64, tag = "2")]
        pub(super) start: u64,
        #[prost(fixed64, tag = "3")]
        pub(super) time: u64,
        #[prost(oneof = "Number", tags = "4, 6")]
        pub(super) value: Option<Number>,
        #[prost(message, repeated, tag = "7")]
        pub(super) attributes: Vec<KeyValue>,
        #[prost(uint32, tag = "8")]
        pub(super) flags: u32,
    }
    #[derive(Clone, PartialEq, Oneof)]
    pub(super) enum Number {
        #[prost(double, tag = "4")]
        Double(f64),
        #[prost(sfixed64, tag = "6")]
        Int(i64),
    }
}

use self::messages::*;

/// The parts of a payload as lines of text.
#[derive(Default)]
struct Lines(Vec<String>);

impl Visitor for Lines {
    fn label(&mut self, name: &str, value: &str) {
        self.0.push(format!("label {name}={value}"));
    }

    fn point(&mut self, point: &Point<'_>) {
        let mut attributes = String::new();
        point.attributes.write(&mut attributes);
        self.0.push(format!("{} {:?} {:?} {attributes}", point.name, point.kind, point.value));
    }

    fn left_out(&mut self) {
        self.0.push("left out".to_owned());
    }
}

fn lines(payload: &[u8]) -> Result<Vec<String>, Damaged> {
    let mut lines = Lines::default();
    visit(payload, &mut lines).map(|()| lines.0)
}

/// The lines that a message should give.
fn expected(data: &MetricsData) -> Vec<String> {
    let mut lines = Vec::new();
    for resource in &data.resource_metrics {
        for one in resource.resource.iter().flat_map(|resource| &resource.attributes) {
            lines.push(format!("label {}", pair(one)));
        }
        for metric in resource.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
            expected_points(metric, &mut lines);
        }
    }
    lines
}

fn expected_points(metric: &Metric, lines: &mut Vec<String>) {
    let (kind, sum) = match &metric.data {
        None => return,
        Some(Data::Histogram(sum)) => return lines.extend(sum.points.iter().map(|_| "left out".to_owned())),
        Some(Data::Gauge(sum)) => (Kind::Gauge, sum),
        Some(Data::Sum(sum)) if sum.temporality == 1 => (Kind::Delta { monotonic: sum.monotonic }, sum),
        Some(Data::Sum(sum)) => (Kind::Total { monotonic: sum.monotonic }, sum),
    };
    for point in &sum.points {
        let attributes: Vec<String> = point.attributes.iter().map(pair).collect();
        let value = match point.value {
            None => {
                lines.push("left out".to_owned());
                continue;
            }
            Some(Number::Double(value)) => value,
            Some(Number::Int(value)) => value as f64,
        };
        lines.push(format!("{} {kind:?} {value:?} {}", metric.name, attributes.join(",")));
    }
}

fn pair(one: &KeyValue) -> String {
    let value = match one.value.as_ref().and_then(|any| any.value.as_ref()) {
        None | Some(Any::Bytes(_)) => String::new(),
        Some(Any::Text(text)) => text.clone(),
        Some(Any::Flag(flag)) => flag.to_string(),
        Some(Any::Int(number)) => number.to_string(),
        Some(Any::Double(number)) => number.to_string(),
    };
    format!("{}={value}", one.key)
}

fn key_values() -> impl Strategy<Value = Vec<KeyValue>> {
    let any = prop_oneof![
        ".{0,5}".prop_map(Any::Text),
        any::<bool>().prop_map(Any::Flag),
        any::<i64>().prop_map(Any::Int),
        (-1e9..1e9).prop_map(Any::Double),
        any::<[u8; 3]>().prop_map(|bytes| Any::Bytes(bytes.into())),
    ];
    let value = proptest::option::of(any).prop_map(|value| Some(AnyValue { value }));
    let pair = (".{0,8}", value).prop_map(|(key, value)| KeyValue { key, value });
    prop::collection::vec(pair, 0..4)
}

fn metrics() -> impl Strategy<Value = Metric> {
    let number = prop_oneof![any::<f64>().prop_map(Number::Double), any::<i64>().prop_map(Number::Int)];
    let point = (proptest::option::of(number), key_values(), any::<u64>(), any::<u32>()).prop_map(
        |(value, attributes, time, flags)| NumberPoint { start: time, time, value, attributes, flags },
    );
    let sum = (prop::collection::vec(point, 0..3), 0..4_i32, any::<bool>())
        .prop_map(|(points, temporality, monotonic)| Sum { points, temporality, monotonic })
        .boxed();
    let data = prop_oneof![
        sum.clone().prop_map(Data::Gauge),
        sum.clone().prop_map(Data::Sum),
        sum.prop_map(Data::Histogram)
    ];
    (".{0,9}", proptest::option::of(data)).prop_map(|(name, data)| Metric {
        description: name.clone(),
        name,
        data,
    })
}

fn payloads() -> impl Strategy<Value = MetricsData> {
    let scope = prop::collection::vec(metrics(), 0..4).prop_map(|metrics| ScopeMetrics { metrics });
    let resource =
        (key_values(), prop::collection::vec(scope, 0..3)).prop_map(|(attributes, scope_metrics)| {
            let resource = Some(Resource { attributes, dropped: 1 });
            ResourceMetrics { resource, scope_metrics, schema_url: "a".to_owned() }
        });
    prop::collection::vec(resource, 0..3).prop_map(|resource_metrics| MetricsData { resource_metrics })
}

#[test]
fn otlp_from_another_encoder_is_decoded() {
    let config = ProptestConfig { cases: scaled(300), ..ProptestConfig::default() };
    proptest!(config, |(data in payloads())| {
        prop_assert_eq!(lines(&data.encode_to_vec()), Ok(expected(&data)));
    });
}

#[test]
fn damaged_payloads_are_refused_without_panic() {
    let config = ProptestConfig { cases: scaled(300), ..ProptestConfig::default() };
    proptest!(config, |(data in payloads(), at: prop::sample::Index, bit in 0..8_u32)| {
        let whole = data.encode_to_vec();
        if !whole.is_empty() {
            let at = at.index(whole.len());
            // Only the answer without a panic counts: a cut may be at the end of a field.
            let _ = lines(&whole[..at]);
            let mut damaged = whole;
            damaged[at] ^= 1 << bit;
            let _ = lines(&damaged);
        }
    });
    proptest!(|(noise in prop::collection::vec(any::<u8>(), 0..64))| {
        let _ = lines(&noise);
    });
}

#[test]
fn each_kind_of_damage_has_an_error() {
    let truncated = |bytes, left| Damaged::Truncated { bytes, left };
    let table: [(&[u8], Damaged); 9] = [
        (&[0x0a], truncated(1, 0)),
        (&[0x0a, 5, 1], truncated(5, 1)),
        // Lengths of 2^63 bytes and of 4 GiB.
        (&[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1], truncated(1 << 63, 0)),
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], truncated(0xffff_ffff, 0)),
        (&[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2], Damaged::Overlong),
        (&[0x02, 0], Damaged::Tag(2)),
        // A group.
        (&[0x0b, 0x0c], Damaged::Tag(0x0b)),
        (&[0x19, 1, 2, 3], truncated(8, 3)),
        // The name of a metric.
        (&[0x0a, 7, 0x12, 5, 0x12, 3, 0x0a, 1, 0xff], Damaged::Text { bytes: 1, at: 0 }),
    ];
    for (payload, expected) in table {
        assert_eq!(lines(payload), Err(expected), "{payload:x?}");
    }
    assert_eq!(lines(&[]), Ok(Vec::new()));
    // Fields of other forms and numbers are skipped.
    assert_eq!(lines(&[0x08, 1, 0x7d, 1, 2, 3, 4, 0x12, 1, 9]), Ok(Vec::new()));
}

#[test]
fn deep_nesting_costs_no_stack() {
    // Unknown fields of 1 MiB, each within the one before: 200 000 levels.
    let mut payload = vec![0; 1 << 20];
    let mut at = 0;
    while at + 8 < payload.len() {
        let left = payload.len() - at - 5;
        payload[at] = 0x7a;
        let length =
            [left as u8 | 0x80, (left >> 7) as u8 | 0x80, (left >> 14) as u8 | 0x80, (left >> 21) as u8];
        payload[at + 1..at + 5].copy_from_slice(&length);
        at += 5;
    }
    assert_eq!(lines(&payload), Ok(Vec::new()));
    // The same as the value of an attribute.
    let field = |number: u8, content: &[u8]| {
        let length =
            [content.len() as u8 | 0x80, (content.len() >> 7) as u8 | 0x80, (content.len() >> 14) as u8];
        [&[number << 3 | 2][..], &length, content].concat()
    };
    payload.truncate(1 << 19);
    payload.fill(0);
    let value = field(2, &field(5, &payload));
    let attributes = field(1, &field(1, &field(1, &value)));
    assert_eq!(lines(&attributes), Ok(vec!["label =".to_owned()]));
}
