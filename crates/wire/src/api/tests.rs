//! Tests of `api`.

use super::*;
use crate::golden;
use crate::messages::{ApiVersionsResponse, UNREGISTER_CONTROLLER};

/// APIs with a version that Kafka has since 4.4: key, and the highest version.
const NEWER: [(i16, i16); 5] = [(18, 5), (28, 6), (42, 3), (88, 1), (89, 1)];

/// APIs that Kafka has since 4.4: key, and the versions.
const NEW: [(i16, i16, i16); 2] = [(93, 0, 0), (94, 0, 0)];

/// APIs that Kafka advertises only with a plug-in, which the recorded one did not have.
const OF_PLUG_INS: [i16; 2] = [71, 72];

#[test]
fn api_table_matches_kafkas_advertised_versions() {
    let (_, _, response) = golden::exchanges()
        .into_iter()
        .find(|(header, ..)| header.api == ApiKey::ApiVersions && header.version == 4)
        .unwrap();
    let (_, response) = crate::decode_response::<ApiVersionsResponse>(response, 4).unwrap();
    let newest = |key: i16| NEWER.iter().find(|(newer, _)| *newer == key).map(|(_, max)| *max);
    let rows = response.api_keys.iter();
    let mut kafka: Vec<_> = rows
        .map(|api| (api.api_key, api.min_version, newest(api.api_key).unwrap_or(api.max_version)))
        .collect();
    kafka.extend(NEW);
    kafka.sort();
    let ours = APIS.iter().filter(|api| !OF_PLUG_INS.contains(&api.key.wire()));
    let ours: Vec<_> = ours.map(|api| (api.key.wire(), api.min, api.max)).collect();
    assert_eq!(ours, kafka);
}

#[test]
fn table_agrees_with_the_codec() {
    for api in APIS {
        let codec = kafka_wire::API_DESCRIPTORS
            .iter()
            .chain([&UNREGISTER_CONTROLLER])
            .find(|descriptor| descriptor.api_key.value() == api.key.wire())
            .unwrap();
        let supported = codec.supported_versions;
        assert_eq!(api.lowest_decoded, supported.min().value(), "{}", api.name);
        assert!(api.max <= supported.max().value(), "{}", api.name);
        let flexible = codec.flexible_versions.map_or(NEVER_FLEXIBLE, |range| range.min().value());
        assert_eq!(api.flexible_from, flexible, "{}", api.name);
    }
}

#[test]
fn keys_convert_both_ways() {
    for api in APIS {
        assert_eq!(ApiKey::from_wire(api.key.wire()), Some(api.key));
        assert_eq!(api.key.api(), api);
        assert_eq!(api.key.to_string(), api.name);
    }
    for key in [-1, 4, 7, 52, 70, 82, 95, i16::MAX, i16::MIN] {
        assert_eq!(ApiKey::from_wire(key), None, "{key}");
    }
}

#[test]
fn old_produce_is_advertised_and_refused() {
    assert_eq!(ApiKey::Produce.versions(), 0..=13);
    assert!(!ApiKey::Produce.serves(2));
    assert!(ApiKey::Produce.serves(3));
    assert!(!ApiKey::Produce.serves(14));
}
