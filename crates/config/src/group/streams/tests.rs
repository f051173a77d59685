//! Keys of streams groups that Kafka has since 4.4.

use super::StreamsGroupSettings;
use crate::group::check_group;
use crate::layers::Values;
use crate::{BrokerConfig, ConfigSource, Sources};

fn own(values: &[(&str, &str)]) -> Values {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn newer_keys_are_checked_as_by_kafka() {
    let broker = BrokerConfig::default();
    let group = |name: &str, value: &str| check_group(&broker, &own(&[(name, value)])).err();
    let refused = [
        (
            "streams.assignor.name",
            "other",
            "streams.assignor.name 'other' is not a registered task assignor. Registered assignors are: [sticky].",
        ),
        (
            "streams.rack.aware.assignment.tags",
            "a, b ,a",
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        (
            "streams.rack.aware.assignment.tags",
            "a,,b",
            "Configuration 'streams.rack.aware.assignment.tags' values must not be empty.",
        ),
        (
            "streams.task.offset.interval.ms",
            "14999",
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        ("streams.num.warmup.replicas", "21", "streams.num.warmup.replicas must be less than or equal to 20"),
    ];
    for (name, value, reason) in refused {
        assert_eq!(group(name, value).as_deref(), Some(reason));
    }
    for (name, value) in [
        ("streams.assignor.name", "sticky"),
        ("streams.rack.aware.assignment.tags", ""),
        ("streams.task.offset.interval.ms", "2147483647"),
        ("streams.num.warmup.replicas", "0"),
        ("streams.acceptable.recovery.lag", "5000000000"),
    ] {
        assert_eq!(group(name, value), None, "{name}");
    }
    assert!(group("streams.acceptable.recovery.lag", "-1").is_some());
}

#[test]
fn newer_keys_reach_the_coordinator() {
    let broker = BrokerConfig::default();
    assert_eq!(broker.own_streams(&own(&[])), StreamsGroupSettings::default());
    let values = own(&[
        ("streams.rack.aware.assignment.tags", " zone , rack"),
        ("streams.task.offset.interval.ms", "20000"),
        ("streams.acceptable.recovery.lag", "5000000000"),
    ]);
    let set = StreamsGroupSettings {
        rack_aware_tags: Some("zone,rack".into()),
        task_offset_interval_ms: Some(20_000),
        acceptable_recovery_lag: Some(5_000_000_000),
        ..StreamsGroupSettings::default()
    };
    assert_eq!(broker.own_streams(&values), set);
    let low = own(&[("streams.task.offset.interval.ms", "1")]);
    assert_eq!(broker.own_streams(&low).task_offset_interval_ms, Some(15_000), "bounds hold");
}

#[test]
fn group_setting_may_lower_standby_replicas() {
    let flags = Sources::flags(["group.streams.num.standby.replicas=2"]);
    let broker = BrokerConfig::load(&flags).unwrap();
    let fewer = own(&[("streams.num.standby.replicas", "1")]);
    assert_eq!(check_group(&broker, &fewer), Ok(()));
    assert_eq!(broker.own_streams(&fewer).num_standby_replicas, Some(1));
}

#[test]
fn newer_keys_are_described_if_they_are_set() {
    let broker = BrokerConfig::default();
    let shown = |values: &[(&str, &str)]| {
        let rows = broker.describe_group(&own(values));
        rows.into_iter().find(|row| row.name == "streams.assignor.name").map(|row| row.source)
    };
    assert_eq!(shown(&[]), None);
    assert_eq!(shown(&[("streams.assignor.name", "sticky")]), Some(ConfigSource::Group));
}
