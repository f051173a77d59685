//! A real Prometheus on the files of `deploy/monitoring`, beside a broker with traffic: the
//! metrics, the alert rules, the dashboard, and the rules for Cruise Control.
//!
//! Suite: long; 31 s; needs java, prometheus, python

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use levada_tests::cluster::{Discovery, LEVADA, Shape};
use levada_tests::node::Kind;
use levada_tests::prometheus::{Prometheus, delivered};
use levada_tests::tool::Conversation;
use levada_tests::{Cluster, Node, Tool, await_some, http, paths};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// A broker that flushes often, throttles the client `bursts` and has a tiered topic, and the
/// address of its listener for users.
fn node() -> (Node, SocketAddr) {
    let mut node = Node::new();
    let sasl = node.listen("SASL", "SASL_PLAINTEXT");
    let store = node.scratch().join("store");
    fs::create_dir(&store).expect("a directory for remote segments");
    let users = "org.apache.kafka.common.security.plain.PlainLoginModule required user_grace=\"right\";";
    let mut node = node
        .option("sasl.enabled.mechanisms", "PLAIN")
        .option("listener.name.sasl.plain.sasl.jaas.config", users)
        .option("log.flush.interval.ms", "500")
        .option("remote.log.storage.system.enable", "true")
        .option("remote.log.manager.task.interval.ms", "500")
        .option("levada.remote.store", &format!("file://{}", store.display()))
        .option("offsets.topic.num.partitions", "2")
        .option("transaction.state.log.num.partitions", "2");
    node.start();
    node.levada("topic create kept -c remote.storage.enable=true").run();
    node.levada("config set quota client-id=bursts producer_byte_rate=3000 consumer_byte_rate=6000").run();
    (node, sasl)
}

/// Traffic that continues until it is dropped.
fn traffic(node: &Node, sasl: SocketAddr) -> Conversation {
    let mut traffic =
        Tool::python("monitored.py").args([&node.bootstrap(), &sasl.to_string(), "traffic"]).spawn();
    assert_eq!(traffic.line(LIMIT), "round");
    traffic
}

/// The names of metrics in an expression.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
    words
        .filter(|word| word.starts_with("levada_") || word.starts_with("process_"))
        .map(str::to_string)
        .collect()
}

/// The row of panels that have data in a cluster only.
const CLUSTER_ROW: &str = "Cluster";

/// The queries of the dashboard's panels, as Prometheus is asked for them: those of a cluster, or
/// all others.
fn dashboard(of_cluster: bool) -> BTreeSet<String> {
    let dashboard: Value = serde_json::from_str(&delivered("grafana-dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").split(|panel| panel["type"] == "row");
    let rows = dashboard["panels"].as_array().expect("panels").iter().filter(|panel| panel["type"] == "row");
    // The first part lies before the first row, and is empty.
    let panels = panels.skip(1).zip(rows).filter(|(_, row)| (row["title"] == CLUSTER_ROW) == of_cluster);
    let targets = panels
        .flat_map(|(panels, _)| panels)
        .flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let queries = targets.map(|target| target["expr"].as_str().expect("a query").to_string());
    let plain = |query: String| {
        let variables = ["$cluster", "$instance", "$topic"];
        variables
            .iter()
            .fold(query, |query, name| query.replace(name, ".*"))
            .replace("$__rate_interval", "20s")
    };
    let asked: BTreeSet<String> = queries.map(plain).collect();
    assert!(asked.len() > if of_cluster { 5 } else { 30 }, "{asked:?}");
    assert!(asked.iter().all(|query| !query.contains('$')), "{asked:?}");
    asked
}

/// Waits until `answered` has been true once for each of `open`; fails with the remaining ones.
fn await_each(what: &str, mut open: BTreeSet<String>, mut answered: impl FnMut(&str) -> bool) {
    let end = std::time::Instant::now() + LIMIT;
    while !open.is_empty() {
        assert!(std::time::Instant::now() < end, "{what}: {open:#?}");
        open.retain(|question| !answered(question));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn prometheus_evaluates_every_rule_and_dashboard_query() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let (mut node, sasl) = node();
    let prometheus = Prometheus::beside(&node);
    let _traffic = traffic(&node, sasl);
    await_some("a scrape", LIMIT, || {
        (prometheus.query("up{job=\"levada\"}").first()?.1 == 1.0).then_some(())
    });

    // The type `info` exists in OpenMetrics only.
    assert_eq!(prometheus.api("metadata?metric=levada_build")["levada_build"][0]["type"], "info");
    let named = prometheus.query("levada_build_info{instance=~\".+\"}");
    assert_eq!(named.len(), 1, "the dashboard's variable: {named:?}");

    await_each("queries of the dashboard without data", dashboard(false), |query| {
        !prometheus.query(query).is_empty()
    });

    let written = delivered("alerts.yml").matches("- alert: ").count();
    let rules = await_some("an evaluation of every rule", LIMIT, || {
        let rules = prometheus.rules();
        let evaluated = |rule: &Value| rule["health"] != "unknown";
        rules.iter().all(evaluated).then_some(rules)
    });
    assert_eq!(rules.len(), written);
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        // A broker that is its own controller has no series of a cluster.
        let metrics = metrics_in(rule["query"].as_str().expect("a query"));
        for metric in metrics.iter().filter(|metric| !metric.starts_with("levada_cluster_")) {
            await_some(&format!("a series of {metric} for {}", rule["name"]), LIMIT, || {
                (!prometheus.query(&format!("count({metric})")).is_empty()).then_some(())
            });
        }
    }
    node.assert_running("scraped");
}

#[test]
fn cluster_dashboard_queries_have_data() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let shape = Shape { controllers: 1, kafka: 0, levada: 2, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    cluster.start();
    let follower = cluster.node(LEVADA + 1);
    let prometheus = Prometheus::beside(follower);
    follower.levada("topic create copied --partitions 2 --replicas 2").run();
    await_each("queries of the dashboard without data", dashboard(true), |query| {
        !prometheus.query(query).is_empty()
    });
    await_some("a leader at the broker", LIMIT, || {
        (prometheus.query("levada_led_partitions").first()?.1 == 1.0).then_some(())
    });
}

/// Statistics of times that Cruise Control asks for.
const STATISTICS: [&str; 4] = ["Max", "Mean", "50thPercentile", "999thPercentile"];

/// Queries of Cruise Control's default sampler for metrics of a whole broker.
fn of_brokers() -> BTreeSet<String> {
    let mut asked = BTreeSet::from([
        "avg by (instance) (rate(process_cpu_seconds_total[1m]))".to_owned(),
        r#"kafka_server_KafkaRequestHandlerPool_OneMinuteRate{name="RequestHandlerAvgIdlePercent"}"#
            .to_owned(),
    ]);
    let traffic = ["BytesIn", "BytesOut", "ReplicationBytesIn", "ReplicationBytesOut", "MessagesIn"];
    for name in traffic.into_iter().chain(["TotalProduceRequests", "TotalFetchRequests"]) {
        let selector = format!(r#"{{name="{name}PerSec",topic=""}}"#);
        asked.insert(format!("kafka_server_BrokerTopicMetrics_OneMinuteRate{selector}"));
    }
    for request in ["Produce", "FetchConsumer", "FetchFollower"] {
        let of = |name: &str| format!(r#"{{name="{name}",request="{request}"}}"#);
        asked.insert(format!("kafka_network_RequestMetrics_OneMinuteRate{}", of("RequestsPerSec")));
        for (statistic, name) in STATISTICS.into_iter().flat_map(|statistic| {
            ["RequestQueueTimeMs", "LocalTimeMs", "TotalTimeMs"].map(|name| (statistic, name))
        }) {
            asked.insert(format!("kafka_network_RequestMetrics_{statistic}{}", of(name)));
        }
    }
    for statistic in STATISTICS.into_iter().chain(["OneMinuteRate"]) {
        asked.insert(format!(r#"kafka_log_LogFlushStats_{statistic}{{name="LogFlushRateAndTimeMs"}}"#));
    }
    for queue in ["RequestQueueSize", "ResponseQueueSize"] {
        asked.insert(format!(r#"kafka_network_RequestChannel_Value{{name="{queue}"}}"#));
    }
    asked
}

/// Queries of the dashboard for metrics of topics and partitions that Levada has.
fn of_topics() -> BTreeSet<String> {
    let traffic = ["BytesIn", "BytesOut", "MessagesIn", "TotalProduceRequests"];
    let traffic = traffic.map(|name| {
        let selector = format!(r#"{{name="{name}PerSec",topic!=""}}"#);
        format!("kafka_server_BrokerTopicMetrics_OneMinuteRate{selector}")
    });
    let size = r#"kafka_log_Log_Value{name="Size",topic!="",partition!=""}"#.to_owned();
    traffic.into_iter().chain([size]).collect()
}

#[test]
fn cruise_control_finds_the_metrics_of_brokers() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let (mut node, sasl) = node();
    let prometheus = Prometheus::with_rules(&node, &delivered("cruise-control.yml"));
    let _traffic = traffic(&node, sasl);
    let is_valid =
        |(labels, value): &(Value, f64)| labels["instance"].is_string() && value.is_finite() && *value >= 0.0;
    await_each("metrics of brokers", of_brokers(), |query| {
        let found = prometheus.query(query);
        found.len() == 1 && found.iter().all(is_valid)
    });
    await_each("metrics of topics", of_topics(), |query| {
        let found = prometheus.query(query);
        found.iter().any(|(_, value)| *value > 0.0) && found.iter().all(is_valid)
    });
    node.assert_running("scraped");
    node.stop();
}

#[test]
fn group_lag_alert_fires_and_ends_when_recovered() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let mut node = Node::started();
    let prometheus = Prometheus::beside(&node);
    let tell = |what: &str| Tool::python("monitored.py").args([&node.bootstrap(), "-", what]).run();
    tell("lag");
    let fires = |alert: &str| {
        let firing = prometheus.firing();
        firing.iter().any(|labels| labels["alertname"] == alert && labels["group"] == "laggards")
    };
    await_some("the alert", LIMIT, || fires("LevadaGroupLagging").then_some(()));
    await_some("the alert", LIMIT, || fires("LevadaGroupWithoutMembers").then_some(()));
    let lag = prometheus.query("levada_group_lag_records{group=\"laggards\"}");
    assert_eq!(lag.iter().map(|(_, records)| *records).sum::<f64>(), 7.0, "{lag:?}");
    tell("catch_up");
    await_some("the end of the alert", LIMIT, || (!fires("LevadaGroupLagging")).then_some(()));
    let lag = prometheus.query("levada_group_lag_records{group=\"laggards\"}");
    assert_eq!(lag.iter().map(|(_, records)| *records).sum::<f64>(), 0.0, "{lag:?}");
    node.stop();
}

#[test]
fn promtool_accepts_metrics_rules_and_configuration() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let (mut node, sasl) = node();
    let traffic = traffic(&node, sasl);
    // promtool reads this form only. A test above has Prometheus read OpenMetrics.
    let (media_type, text) = http::page_as(node.http_address(), "/metrics", "text/plain");
    assert!(media_type.starts_with("text/plain; version=0.0.4"), "{media_type}");
    let file = node.scratch().join("metrics");
    fs::write(&file, text).expect("a file");
    let said = Tool::promtool().args(["check", "metrics"]).stdin(&file).run();
    assert_eq!((said.stdout.trim(), said.stderr.trim()), ("", ""));
    let files = paths::monitoring();
    for (command, name) in
        [("rules", "alerts.yml"), ("rules", "cruise-control.yml"), ("config", "prometheus.yml")]
    {
        let said = Tool::promtool().args(["check", command, &files.join(name).display().to_string()]).run();
        println!("{}", said.stdout.trim());
    }
    drop(traffic);
    node.stop();
}

#[test]
fn alert_rules_fire_when_due_and_not_before() {
    let tests = paths::alert_tests();
    Tool::promtool().args(["test", "rules", &tests.display().to_string()]).run();
    let tests = fs::read_to_string(tests).expect("the tests of the rules");
    for rule in delivered("alerts.yml").lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let named = |form: &str| tests.contains(&form.replace("NAME", rule));
        assert!(named("alertname: NAME\n"), "{rule} has no test that it fires");
        assert!(named("alertname: NAME, eval_time"), "{rule} has no test that it does not fire too early");
    }
}
