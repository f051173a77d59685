//! Tests of the keys of the remote store.

use std::time::Duration;

use levada_tiered::{StoreLayout, StoreLocation, StoreOptions};

use super::{load, own};
use crate::BrokerConfig;

const ON: &str = "remote.log.storage.system.enable=true";

#[test]
fn a_store_needs_three_keys() {
    let config =
        load(&[ON, "levada.remote.store=s3://logs/eu", "levada.remote.s3.region=eu-west-1"]).unwrap();
    let expected = StoreOptions {
        location: "s3://logs/eu/".parse().unwrap(),
        layout: StoreLayout::Aiven,
        endpoint: None,
        region: Some("eu-west-1".to_owned()),
        kms_key: None,
        request_timeout: Duration::from_secs(30),
    };
    assert_eq!(config.remote_store, Some(expected));
    let config = load(&[ON, "levada.remote.store=file:///mnt/tiers", "levada.remote.layout=local"]).unwrap();
    let options = config.remote_store.unwrap();
    assert_eq!(options.location, StoreLocation::Directory("/mnt/tiers".into()));
    assert_eq!(options.layout, StoreLayout::Local);
}

#[test]
fn a_store_without_the_system_is_not_opened() {
    assert_eq!(load(&["levada.remote.store=s3://logs"]).unwrap().remote_store, None);
    assert_eq!(load(&[]).unwrap().remote_store, None);
}

#[test]
fn invalid_remote_stores_are_refused() {
    fn check(flags: &[&str], expected: &str) {
        assert_eq!(load(flags).unwrap_err().to_string(), expected);
    }
    const LOCATIONS: &str =
        "must be file:///DIRECTORY, s3://BUCKET, gs://BUCKET or az://CONTAINER; after a bucket, /PREFIX";
    check(
        &["levada.remote.store=ftp://host"],
        &format!("levada.remote.store=ftp://host (flag -o): {LOCATIONS}"),
    );
    check(
        &[ON],
        &format!(
            "levada.remote.store= (default): {LOCATIONS}, because remote.log.storage.system.enable is true"
        ),
    );
    check(
        &["levada.remote.store=s3://key:secret@logs"],
        &format!("levada.remote.store=(hidden) (flag -o): {LOCATIONS}"),
    );
    check(
        &["levada.remote.store=s3://logs", "levada.remote.layout=local"],
        "levada.remote.layout=local (flag -o): must be aiven, because levada.remote.store is not a directory",
    );
    check(
        &["levada.remote.store=gs://logs", "levada.remote.s3.endpoint=http://127.0.0.1:9000"],
        "levada.remote.s3.endpoint=http://127.0.0.1:9000 (flag -o): must be empty, because levada.remote.store is not in S3",
    );
    check(
        &["levada.remote.s3.endpoint=127.0.0.1:9000"],
        "levada.remote.s3.endpoint=127.0.0.1:9000 (flag -o): must be http://HOST:PORT or https://HOST:PORT",
    );
    check(
        &["levada.remote.layout=plain"],
        "levada.remote.layout=plain (flag -o): must be one of aiven, local",
    );
}

/// An endpoint that a client chooses would receive signed requests and records.
#[test]
fn remote_store_keys_reject_dynamic_changes() {
    for (key, value) in [
        ("levada.remote.store", "s3://others"),
        ("levada.remote.layout", "local"),
        ("levada.remote.s3.endpoint", "http://127.0.0.1:9000"),
        ("levada.remote.s3.region", "eu-west-1"),
        ("levada.remote.s3.kms.key.id", "others"),
        ("levada.remote.request.timeout.ms", "1000"),
    ] {
        for whole_cluster in [false, true] {
            let checked = BrokerConfig::default().check_dynamic(whole_cluster, &own(&[(key, value)]));
            assert_eq!(checked, Err(format!("Cannot update these configs dynamically: [{key}]")));
        }
    }
}
