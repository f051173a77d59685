//! Checks against clusters that are made up, and samples of the progress.

use std::collections::BTreeMap;

use levada_wire::StrBytes;
use levada_wire::messages::ApiVersionsResponse;
use levada_wire::messages::api_versions_response::{FinalizedFeatureKey, SupportedFeatureKey};
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

use super::facts::{Facts, TopicSettings};
use super::progress::Sample;
use super::tiers::Tiers;
use super::{Check, Report, Verdict, checks, file, print};

fn broker(id: i32, is_fenced: bool) -> DescribeClusterBroker {
    let mut broker = DescribeClusterBroker::default();
    (broker.broker_id, broker.is_fenced) = (id, is_fenced);
    broker
}

fn topic(name: &str, partitions: &[(&[i32], &[i32])]) -> MetadataResponseTopic {
    let partition = |(index, (replicas, in_sync)): (usize, &(&[i32], &[i32]))| {
        let mut partition = MetadataResponsePartition::default();
        partition.partition_index = index as i32;
        partition.leader_id = in_sync.first().copied().unwrap_or(-1);
        (partition.replica_nodes, partition.isr_nodes) = (replicas.to_vec(), in_sync.to_vec());
        partition
    };
    let mut topic = MetadataResponseTopic::default();
    topic.name = Some(StrBytes::from(name));
    topic.partitions = partitions.iter().enumerate().map(partition).collect();
    topic
}

fn versions(finalized: &[(&str, i16)], supported: i16) -> ApiVersionsResponse {
    let mut answer = ApiVersionsResponse::default();
    let level = |(name, level): &(&str, i16)| {
        let mut feature = FinalizedFeatureKey::default();
        (feature.name, feature.max_version_level) = (StrBytes::from(*name), *level);
        feature
    };
    answer.finalized_features = finalized.iter().map(level).collect();
    let mut feature = SupportedFeatureKey::default();
    (feature.name, feature.max_version) = (StrBytes::from("metadata.version"), supported);
    answer.supported_features = vec![feature];
    answer
}

/// A cluster that can be replaced.
fn sound() -> Facts {
    let finalized = [("metadata.version", 30), ("transaction.version", 2), ("share.version", 1)];
    Facts {
        cluster_id: "of-three".to_owned(),
        brokers: [1, 2, 3].map(|id| broker(id, false)).to_vec(),
        topics: vec![topic("clicks", &[(&[1, 2, 3], &[2, 1, 3]), (&[2, 3, 1], &[2, 1, 3])])],
        versions: BTreeMap::from([1, 2, 3].map(|id| (id, versions(&finalized, 30)))),
        settings: BTreeMap::from([("clicks".to_owned(), TopicSettings { min_in_sync: 2, is_tiered: false })]),
        settings_refused: None,
    }
}

/// Fails unless exactly this check has this verdict and all others pass.
fn expect(facts: &Facts, own: Option<i32>, expected: (&str, Verdict, &str)) {
    let checks = checks::all(facts, own, &Tiers::Unknown);
    let failed: Vec<&Check> = checks.iter().filter(|check| check.verdict != Verdict::Ok).collect();
    let [check] = failed[..] else { panic!("{failed:#?}") };
    assert_eq!((check.name, check.verdict), (expected.0, expected.1), "{check:?}");
    assert!(check.found.contains(expected.2) && check.next.is_some(), "{check:?}");
}

#[test]
fn doctor_accepts_a_sound_cluster() {
    let checks = checks::all(&sound(), None, &Tiers::Unknown);
    assert!(checks.iter().all(|check| check.verdict == Verdict::Ok && check.next.is_none()), "{checks:#?}");
    assert_eq!(checks.len(), 7);
}

#[test]
fn fenced_broker_blocks_unless_being_replaced() {
    let mut facts = sound();
    facts.brokers[2].is_fenced = true;
    facts.topics[0].partitions.iter_mut().for_each(|partition| partition.isr_nodes = vec![2, 1]);
    assert!(checks::all(&facts, Some(3), &Tiers::Unknown).iter().all(|check| check.verdict == Verdict::Ok));
    let blocked = checks::all(&facts, None, &Tiers::Unknown)
        .into_iter()
        .filter(|check| check.verdict == Verdict::Blocked);
    assert_eq!(blocked.map(|check| check.name).collect::<Vec<_>>(), ["brokers", "replicas"]);
}

#[test]
fn unsupported_feature_levels_block_replacement() {
    for (feature, found) in [
        (("metadata.version", 34), "finalized at 34; this Levada supports 25 to 33"),
        (("metadata.version", 24), "finalized at 24"),
        (("transaction.version", 3), "supports 0 to 2"),
        (("disk.version", 1), "does not support it"),
    ] {
        let mut facts = sound();
        facts.versions.get_mut(&2).unwrap().finalized_features = versions(&[feature], 30).finalized_features;
        facts.versions.get_mut(&2).unwrap().finalized_features_epoch = 90;
        expect(&facts, None, ("features", Verdict::Blocked, found));
    }
    let mut facts = sound();
    facts.versions.get_mut(&2).unwrap().supported_features = versions(&[], 34).supported_features;
    expect(&facts, None, ("releases", Verdict::Warning, "up to 34: 2"));
}

#[test]
fn doctor_names_topics_at_risk() {
    let mut facts = sound();
    facts.topics.push(topic("alone", &[(&[3], &[3])]));
    expect(&facts, None, ("single replicas", Verdict::Warning, "alone-0"));
    assert!(checks::all(&facts, Some(1), &Tiers::Unknown).iter().all(|check| check.verdict == Verdict::Ok));
    let mut facts = sound();
    facts.topics[0].partitions[1].isr_nodes = vec![2, 3];
    expect(&facts, None, ("replicas", Verdict::Blocked, "clicks-1 has 2 of 3 replicas in sync"));
    let mut facts = sound();
    facts.topics[0].partitions[0].isr_nodes.clear();
    facts.topics[0].partitions[0].leader_id = -1;
    expect(&facts, None, ("replicas", Verdict::Blocked, "clicks-0 has no leader"));
    let mut facts = sound();
    facts.settings.get_mut("clicks").unwrap().min_in_sync = 3;
    expect(&facts, None, ("min.insync.replicas", Verdict::Warning, "clicks-0, clicks-1"));
    let mut facts = sound();
    facts.settings.get_mut("clicks").unwrap().is_tiered = true;
    expect(&facts, None, ("tiered topics", Verdict::Blocked, "clicks; the store of the broker is not known"));
    let mut facts = sound();
    facts.settings_refused = Some("TOPIC_AUTHORIZATION_FAILED".to_owned());
    expect(&facts, None, ("topic settings", Verdict::Blocked, "TOPIC_AUTHORIZATION_FAILED"));
}

#[test]
fn doctor_line_names_few_and_counts_others() {
    let names: Vec<String> = (0..7).map(|number| format!("t-{number}")).collect();
    assert_eq!(checks::some(&names), "t-0, t-1, t-2, t-3, t-4 and 2 more");
}

/// A configuration and its directory, of broker 2.
fn stopped(identity: &str, keys: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    if !identity.is_empty() {
        let text = format!("version=1\ndirectory.id=bGV2YWRhLWRpcmVjd0021Q\n{identity}\n");
        std::fs::write(data.join("meta.properties"), text).unwrap();
    }
    let file = dir.path().join("server.properties");
    let text = format!(
        "process.roles=broker\nnode.id=2\nlisteners=PLAINTEXT://localhost:9092\ncontroller.listener.names=C\n\
         controller.quorum.bootstrap.servers=c:9093\nlistener.security.protocol.map=C:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         log.dirs={}\nnum.io.threads=8\n{keys}\n",
        data.display()
    );
    std::fs::write(&file, text).unwrap();
    (dir, file)
}

#[test]
fn doctor_blocks_foreign_directory_or_invalid_configuration() {
    const OWN: &str = "cluster.id=of-three\nnode.id=2";
    let check = |identity: &str, keys: &str| file::checks(&stopped(identity, keys).1, &sound()).checks;
    for (identity, keys, name, verdict, found) in [
        (OWN, "", "directory", Verdict::Warning, "without the mark of a clean stop"),
        ("cluster.id=other\nnode.id=2", "", "directory", Verdict::Blocked, "belongs to cluster other"),
        ("cluster.id=of-three\nnode.id=3", "", "directory", Verdict::Blocked, "belongs to node 3"),
        ("", "", "directory", Verdict::Blocked, "has no meta.properties"),
        (OWN, "num.partition=3", "configuration", Verdict::Blocked, "num.partition"),
        (
            OWN,
            "process.roles=broker,controller\ncontroller.quorum.bootstrap.servers=",
            "role",
            Verdict::Blocked,
            "exactly broker",
        ),
        (
            OWN,
            "listeners=SSL://localhost:9092\ninter.broker.listener.name=SSL\nlistener.security.protocol.map=C:PLAINTEXT,SSL:SSL\nssl.keystore.type=PEM\nssl.keystore.location=/nowhere.pem",
            "listeners",
            Verdict::Blocked,
            "/nowhere.pem",
        ),
        (
            OWN,
            "listeners=SASL_PLAINTEXT://localhost:9092\ninter.broker.listener.name=SASL_PLAINTEXT\nlistener.security.protocol.map=C:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\nsasl.enabled.mechanisms=GSSAPI",
            "configuration",
            Verdict::Blocked,
            "GSSAPI",
        ),
    ] {
        let checks = check(identity, keys);
        let found_one = checks.iter().find(|check| check.name == name && check.verdict == verdict);
        let check = found_one.unwrap_or_else(|| panic!("{name}, {keys}: {checks:#?}"));
        assert!(check.found.contains(found) && check.next.is_some(), "{check:?}");
    }
    let (dir, path) = stopped(OWN, "");
    std::fs::write(dir.path().join("data/.kafka_cleanshutdown"), "{\"version\":0,\"brokerEpoch\":7}")
        .unwrap();
    let of_file = file::checks(&path, &sound());
    assert!(of_file.checks.iter().all(|check| check.verdict == Verdict::Ok), "{:#?}", of_file.checks);
    assert_eq!(of_file.node_id, Some(2));
}

#[test]
fn doctor_accepts_tiered_topics_with_their_store() {
    const OWN: &str = "cluster.id=of-three\nnode.id=2";
    let mut facts = sound();
    facts.settings.get_mut("clicks").unwrap().is_tiered = true;
    let store = tempfile::tempdir().unwrap();
    let keys = format!(
        "remote.log.storage.system.enable=true\nlevada.remote.store=file://{}",
        store.path().display()
    );
    let check = |keys: &str| {
        let of_file = file::checks(&stopped(OWN, keys).1, &facts);
        let all = checks::all(&facts, of_file.node_id, &of_file.tiers);
        all.into_iter().find(|check| check.name == "tiered topics").unwrap()
    };
    let off = check("");
    assert_eq!(off.verdict, Verdict::Blocked);
    assert!(off.found.contains("remote.log.storage.system.enable is off"), "{off:?}");
    assert!(off.next.unwrap().contains("remote.storage.enable off deletes the remote records"));
    // A file of Kafka, whose keys of the plug-in do not name the store for Levada.
    let of_kafka = file::checks(&stopped(OWN, "remote.log.storage.system.enable=true").1, &facts);
    let refused = of_kafka.checks.into_iter().find(|check| check.name == "configuration").unwrap();
    assert!(refused.next.unwrap().contains("same remote store"));
    assert_eq!(of_kafka.tiers, Tiers::Unknown);
    let served = check(&keys);
    assert!(served.verdict == Verdict::Ok && served.found.contains("no metadata of a copy"), "{served:?}");
    std::fs::create_dir(store.path().join(".levada")).unwrap();
    let owner = "{\"version\":1,\"cluster.id\":\"other\"}";
    std::fs::write(store.path().join(".levada/cluster.json"), owner).unwrap();
    let foreign = check(&keys);
    assert_eq!(foreign.verdict, Verdict::Blocked);
    assert!(foreign.found.contains("belongs to cluster other") && foreign.next.is_some(), "{foreign:?}");
}

#[test]
fn doctor_report_ends_with_steps_and_conclusion() {
    let checks = vec![Check::ok("brokers", "3 brokers"), Check::blocked("tiered topics", "t", "empty it")];
    let report = Report { cluster: "of-three".to_owned(), replaceable: false, checks };
    let mut out = Vec::new();
    print(&mut out, &report).unwrap();
    let expected = "Cluster of-three

CHECK          RESULT   FOUND
brokers        ok       3 brokers
tiered topics  blocked  t

Next steps
  tiered topics: empty it

Resolve the blocked checks before you replace a broker.
";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["checks"][1]["verdict"], "blocked");
}

#[test]
fn replacement_progress_counts_missing_bytes() {
    let brokers = [broker(1, false), broker(2, false)];
    let topics = [topic("t", &[(&[1, 2], &[1]), (&[2, 1], &[2, 1])])];
    let size = |node: i32, bytes: i64| ((node, "t".to_owned(), 0), bytes);
    let sample = |sizes: &[((i32, String, i32), i64)]| {
        serde_json::to_value(Sample::of(&brokers, &topics, &sizes.iter().cloned().collect())).unwrap()
    };
    let known = sample(&[size(1, 100), size(2, 30)]);
    let expected = serde_json::json!(
        {"id": 2, "fenced": false, "leaders": 1, "replicas": 2, "in_sync": 1, "behind_bytes": 70}
    );
    assert_eq!((&known["complete"], &known["brokers"][1]), (&serde_json::json!(false), &expected));
    assert_eq!(sample(&[size(1, 100)])["brokers"][1]["behind_bytes"], serde_json::Value::Null);
    let full = [topic("t", &[(&[1, 2], &[1, 2])])];
    assert!(is_complete(&brokers, &full));
    assert!(!is_complete(&[broker(1, false), broker(2, true)], &full), "a broker is fenced");
}

fn is_complete(brokers: &[DescribeClusterBroker], topics: &[MetadataResponseTopic]) -> bool {
    serde_json::to_value(Sample::of(brokers, topics, &BTreeMap::new())).unwrap()["complete"] == true
}
