//! Tests of the start of the broker.

use super::{native, server};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn kafka_volume_becomes_the_data_directory() {
    let mounts = "29 1 254:1 / / rw - ext4 /dev/vda rw\n\
                  40 29 254:1 /volumes/k /var/lib/kafka/data rw - ext4 /dev/vda rw\n";
    let log_dirs = ("LEVADA_LOG_DIRS", "/var/lib/kafka/data");
    assert_eq!(server::variables(mounts, false, |_| false), [log_dirs]);
    let is_set = |name: &str| name == "KAFKA_LOG_DIRS";
    assert_eq!(server::variables(mounts, false, is_set), [], "the user names another directory");
    assert_eq!(server::variables("29 1 254:1 / / rw - ext4 /dev/vda rw\n", false, |_| false), []);
}

#[test]
fn a_mounted_configuration_is_read() {
    let config = ("LEVADA_CONFIG", "/mnt/shared/config/server.properties");
    assert_eq!(server::variables("", true, |_| false), [config]);
}

#[test]
fn native_image_options_become_variables() {
    let line =
        "-Dkafka.advertised.listeners=PLAINTEXT://localhost:32768 -Dkafka.interbroker.listener.name=BROKER";
    let expected = [
        ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://localhost:32768"),
        ("KAFKA_INTER_BROKER_LISTENER_NAME", "BROKER"),
    ];
    let found = native::variables(&words(line)).unwrap();
    assert!(found.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected), "{found:?}");
    let refused = native::variables(&words("-Xmx1G")).unwrap_err().to_string();
    assert!(refused.starts_with("-Xmx1G: expected -Dkafka.KEY=VALUE"), "{refused}");
}
