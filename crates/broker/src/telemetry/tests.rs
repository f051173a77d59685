//! Tests of the room: subscriptions of an image, codecs and limits of payloads, connections.

use levada_base::compress::compress;
use levada_config::BrokerConfig;
use levada_metadata::image::{ConfigResource, Position};
use levada_metadata::records::{ConfigRecord, Record};

use super::*;

const ID: Uuid = Uuid::from_bytes([7; 16]);

fn room(config: BrokerConfig) -> Arc<ClientTelemetry> {
    Arc::new(ClientTelemetry::new(Arc::new(LiveConfig::new(config))))
}

fn client(client_id: &str) -> Identity<'_> {
    Identity {
        instance_id: ID,
        client_id: Some(client_id),
        software: None,
        source: ([127, 0, 0, 1], 4000).into(),
    }
}

fn origin() -> Origin<'static> {
    Origin {
        instance_id: ID,
        client_id: "orders",
        user: "ANONYMOUS",
        software: ("", ""),
        source: ([127, 0, 0, 1], 4000).into(),
        interval_ms: 1000,
        terminating: false,
    }
}

/// An image with one subscription.
fn image(keys: &[(&str, &str)]) -> Image {
    let mut image = Image::empty();
    for (name, value) in keys {
        let resource = ConfigResource { kind: ResourceKind::ClientMetrics, name: "one".to_owned() };
        let record = Record::from(ConfigRecord {
            resource_type: resource.kind.id(),
            resource_name: resource.name,
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        });
        image.apply(&record, Position::default()).expect("the record fits");
    }
    image
}

#[test]
fn metadata_image_replaces_telemetry_subscriptions() {
    let room = room(BrokerConfig::default());
    let connection = TelemetryConnection::new(&room);
    assert!(!room.is_offered());
    let (_, requested) = room.get(&client("orders-1"), &connection).expect("the first request");
    assert_eq!((requested.metrics.len(), requested.interval_ms), (0, 300_000));
    room.configure(&image(&[("metrics", "a."), ("interval.ms", "500"), ("match", "client_id=orders-.*")]));
    assert!(room.is_offered());
    // The change lets the client ask before its interval has passed.
    let (_, requested) = room.get(&client("orders-1"), &connection).expect("the subscriptions have changed");
    assert_eq!((requested.metrics, requested.interval_ms), (vec!["a.".to_owned()], 500));
    assert_eq!(room.get(&client("orders-1"), &connection), Err(GetRefusal::Throttled));
    // An expression that cannot be compared matches no client.
    room.configure(&image(&[("metrics", "a."), ("match", "client_id=(?!b).*")]));
    let (_, requested) = room.get(&client("orders-1"), &connection).expect("the subscriptions have changed");
    assert!(requested.metrics.is_empty());
    let state = room.state();
    assert_eq!((state.instances, state.throttled), (1, 1));
}

#[test]
fn instances_end_with_their_connection() {
    let room = room(BrokerConfig::default());
    let connection = TelemetryConnection::new(&room);
    room.get(&client("a"), &connection).expect("the first request");
    let other = TelemetryConnection::new(&room);
    assert_eq!(room.get(&client("a"), &other), Err(GetRefusal::Throttled));
    drop(other);
    assert_eq!(room.state().instances, 1);
    drop(connection);
    assert_eq!(room.state().instances, 0);
}

#[test]
fn offer_follows_the_configuration() {
    let with = |offer, exported: &[&str]| {
        let mut config = BrokerConfig::default();
        config.telemetry.offer = offer;
        config.telemetry.exported = exported.iter().map(|one| (*one).to_owned()).collect();
        room(config).is_offered()
    };
    assert!(with(TelemetryOffer::Always, &[]));
    assert!(with(TelemetryOffer::Auto, &["a."]));
    assert!(!with(TelemetryOffer::Auto, &[]));
    assert!(!with(TelemetryOffer::Never, &["a."]));
}

#[test]
fn payloads_expand_within_the_limit() {
    let mut config = BrokerConfig::default();
    config.telemetry.max_bytes = 1000;
    let room = room(config);
    // An unknown field of this number of bytes, which costs no series.
    let field =
        |bytes: usize| [&[0x7a, bytes as u8 | 0x80, (bytes >> 7) as u8][..], &vec![0; bytes]].concat();
    let codecs =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for codec in codecs {
        let keep = |payload: &[u8]| {
            let mut compressed = Vec::new();
            compress(codec, payload, &mut compressed).expect("it compresses");
            room.keep(&origin(), (codec, &compressed))
        };
        assert!(keep(&field(997)).is_ok(), "{codec:?}");
        let large = keep(&field(998));
        assert!(matches!(large, Err(PayloadError::Compressed(CompressError::TooLarge { .. }))), "{codec:?}");
        assert!(
            matches!(keep(&field(997)[..9]), Err(PayloadError::Damaged(Damaged::Truncated { .. }))),
            "{codec:?}"
        );
    }
    assert_eq!(room.state().damaged, 10);
    assert_eq!(room.rows("orde", 10, &[]).len(), 1);
    assert!(room.rows("other", 10, &[]).is_empty() && room.client(ID).is_some());
}
