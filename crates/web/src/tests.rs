//! Tests of the HTTP address over real sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, UNIX_EPOCH};

use levada_broker::source::{
    CleanerStats, DeadLetterCounts, Durations, FollowingState, GroupState, GroupStates, IsrCounts, Lag,
    LogState, MembershipState, QuotaUse, Readiness, RecoveryProgress, RemoteLogState, RemoteState,
    ReplayStats, ReplicationState, ShareLag, ShareState, Stats, TelemetryState, TrafficTotals,
    TransactionStates, UpkeepState, Work,
};
use levada_telemetry::Exported;
use levada_wire::{ApiKey, Uuid};

use super::*;

pub(super) struct Fake {
    stats: Stats,
    sick: AtomicBool,
    /// The next connection panics.
    is_broken: AtomicBool,
    recovering: AtomicU64,
    membership: Mutex<Option<MembershipState>>,
    /// Number of topics with a partition each; 0 for a few that differ.
    topics: usize,
}

impl Default for Fake {
    fn default() -> Self {
        let stats = Stats::new(UNIX_EPOCH + Duration::from_secs(5));
        Self {
            stats,
            sick: AtomicBool::default(),
            is_broken: AtomicBool::default(),
            recovering: AtomicU64::default(),
            membership: Mutex::default(),
            topics: 0,
        }
    }
}

impl Fake {
    pub(super) fn with_topics(topics: usize) -> Self {
        Self { topics, ..Self::default() }
    }

    /// Makes scrapes wait while the guard exists.
    pub(super) fn hold_membership(&self) -> MutexGuard<'_, Option<MembershipState>> {
        self.membership.lock().unwrap()
    }
}

impl Source for Fake {
    fn transfers(&self) -> levada_io::Snapshot {
        levada_io::Counters::default().snapshot()
    }

    fn stats(&self) -> &Stats {
        assert!(!self.is_broken.swap(false, Ordering::Relaxed), "on purpose");
        &self.stats
    }

    fn partitions(&self) -> u64 {
        7
    }

    fn recovery(&self) -> RecoveryProgress {
        RecoveryProgress { total: 9, left: 7, checked_bytes: 1234 }
    }

    fn remote(&self) -> Option<RemoteState> {
        let log = RemoteLogState {
            topic: "views".to_owned(),
            bytes: 7,
            segments: 2,
            copy_lag_bytes: 5,
            copy_lag_segments: 1,
            ..RemoteLogState::default()
        };
        Some(RemoteState { copied_bytes: 11, cache_misses: 3, logs: vec![log], ..RemoteState::default() })
    }

    fn telemetry(&self) -> TelemetryState {
        let series = |name: &str, attributes: &str, is_counter: bool| Exported {
            client_id: "orders \"1\"".to_owned(),
            instance_id: Uuid::from_bytes([7; 16]),
            name: name.to_owned(),
            attributes: attributes.to_owned(),
            value: 2.5,
            is_counter,
        };
        TelemetryState {
            instances: 4,
            clients: 3,
            series: 60,
            bytes: 9000,
            pushes: 12,
            throttled: 5,
            unknown_subscriptions: 2,
            damaged: 1,
            clients_evicted: 8,
            points_left_out: 9,
            exported: vec![series("a.latency.avg", "node_id=1", false), series("a.records.total", "", true)],
            not_exported: 6,
        }
    }

    fn shares(&self) -> ShareState {
        ShareState {
            sessions: 3,
            partitions: 1,
            lags: vec![ShareLag {
                group: "queue".into(),
                topic: "clicks".to_owned(),
                partition: 0,
                records: 12,
                in_flight: 5,
                in_flight_batches: 2,
                expired: 1,
                fetches: 9,
                locked: Duration::from_millis(1500),
            }],
            loads: Durations {
                buckets: std::array::from_fn(|index| u64::from(index == 3)),
                sum_ns: 1_000_000,
            },
            tracked_bytes: 640,
            acquired_records: 30,
            expired_records: 2,
            acknowledged_records: [0, 20, 5, 1, 0],
            dead_letters: vec![(
                "orders".into(),
                DeadLetterCounts { written: 6, given_up: 2, requests: 4, failed_requests: 1 },
            )],
        }
    }

    fn cleaner(&self) -> CleanerStats {
        CleanerStats {
            runs: 3,
            read_bytes: 500,
            written_bytes: 90,
            dirtiest_percent: 41,
            backlog_bytes: 77,
            uncleanable: 1,
        }
    }

    fn replays(&self) -> ReplayStats {
        ReplayStats {
            admitted_bytes: 11,
            refused_bytes: 12,
            around_bytes: 10,
            remembered_bytes: 13,
            memory: [("free", false), ("full", true), ("stalled", false)],
        }
    }

    fn request_bytes_held(&self) -> u64 {
        8
    }

    fn logs(&self) -> Vec<LogState> {
        let log = |topic: &str, partition| {
            let traffic = TrafficTotals {
                bytes_in: 100,
                records_in: 10,
                batches_in: 2,
                bytes_out: 300,
                failed_produces: 1,
                failed_fetches: 4,
            };
            let durability = "fdatasync".into();
            LogState {
                topic: topic.into(),
                partition,
                size_bytes: 90,
                start: 5,
                end: 15,
                traffic,
                durability,
            }
        };
        match self.topics {
            0 => vec![log("clicks", 0), log("clicks", 1), log("views", 0)],
            topics => (0..topics).map(|number| log(&format!("t{number:05}"), 0)).collect(),
        }
    }

    fn upkeep(&self) -> UpkeepState {
        UpkeepState {
            retention_segments: 3,
            retention_bytes: 2048,
            volumes: vec![("/data".to_owned(), 1000, 4000), ("/more".to_owned(), 500, 2000)],
            log_bytes: vec![("/data".to_owned(), 700), ("/more".to_owned(), 0)],
            ..UpkeepState::default()
        }
    }

    fn groups(&self) -> GroupStates {
        let lag = |partition, records, seconds| Lag {
            topic: "clicks".to_owned(),
            partition,
            committed: 40,
            records,
            seconds,
        };
        let group = GroupState {
            group: "readers".to_owned(),
            kind: "consumer",
            state: "Stable",
            members: 2,
            rebalances: 7,
            lags: vec![lag(0, 12, Some(1.5)), lag(1, 3, None)],
        };
        GroupStates { groups: vec![group], groups_left_out: 1 }
    }

    fn transactions(&self) -> TransactionStates {
        TransactionStates { ids: [("Ongoing", 2)].into(), committed: 8, aborted: 1, late_partitions: 1 }
    }

    fn longest_lane_turns(&self) -> [Duration; Work::ALL.len()] {
        [Duration::from_micros(1_500); Work::ALL.len()]
    }

    fn replication(&self) -> ReplicationState {
        let changes = IsrCounts { expansions: 1, shrinks: 2, failures: 3 };
        let throttled_bytes = (700, 800);
        ReplicationState {
            led: 6,
            under_replicated: 4,
            under_min_insync: 5,
            preferred_not_led: 9,
            changes,
            throttled_bytes,
        }
    }

    fn quota_uses(&self, most: usize) -> Vec<QuotaUse> {
        assert_eq!(most, 100);
        let (user, client_id) = ("ann".to_owned(), String::new());
        vec![QuotaUse { quota: "producer_byte_rate", user, client_id, rate: 250.5, limit: 1000.0 }]
    }

    fn readiness(&self) -> Readiness {
        let recovering_partitions = self.recovering.load(Ordering::Relaxed);
        let loading_coordinators = recovering_partitions / 2;
        let membership = self.membership();
        let warnings = vec!["records of t-0 are lost".to_owned()];
        Readiness {
            recovering_partitions,
            loading_coordinators,
            membership,
            warnings,
            ..Readiness::default()
        }
    }

    fn membership(&self) -> Option<MembershipState> {
        self.membership.lock().unwrap().clone()
    }

    fn following(&self) -> FollowingState {
        FollowingState { lags: vec![("clicks".to_owned(), 1, 30)], errors: 2, bytes: 7 }
    }

    fn unhealthy(&self) -> Option<String> {
        self.sick.load(Ordering::Relaxed).then(|| "data directory is full".to_owned())
    }
}

/// A host with a socket on a free port.
fn loopback() -> (&'static str, TcpListener) {
    let host = "127.0.0.1";
    let socket = TcpListener::bind((host, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    (host, socket)
}

fn start() -> (Arc<Fake>, WebServer) {
    let fake = Arc::new(Fake::default());
    let server = WebServer::start(loopback(), None, fake.clone(), Router::new()).unwrap();
    (fake, server)
}

/// Status line, headers in small letters, and body.
fn ask(server: &WebServer, method: &str, path: &str) -> (String, String, String) {
    ask_for(server, method, path, "")
}

/// As [`ask`], with further headers.
fn ask_for(server: &WebServer, method: &str, path: &str, headers: &str) -> (String, String, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}connection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (status, headers) = head.split_once("\r\n").unwrap();
    (status.to_owned(), headers.to_lowercase(), body.to_owned())
}

#[test]
fn healthz_follows_the_broker() {
    let (fake, server) = start();
    let (status, _, body) = ask(&server, "GET", "/healthz");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "ok\n"));
    fake.sick.store(true, Ordering::Relaxed);
    let (status, _, body) = ask(&server, "GET", "/healthz");
    assert_eq!(
        (status.as_str(), body.as_str()),
        ("HTTP/1.1 503 Service Unavailable", "data directory is full\n")
    );
}

#[test]
fn readyz_lists_reasons_and_warnings() {
    let (fake, server) = start();
    let (status, headers, body) = ask(&server, "GET", "/readyz");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(headers.contains("content-type: application/json"), "{headers}");
    let ready: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&ready["ready"], &ready["reasons"]), (&true.into(), &serde_json::json!([])));
    assert_eq!(ready["warnings"], serde_json::json!(["records of t-0 are lost"]));
    fake.recovering.store(3, Ordering::Relaxed);
    let (status, _, body) = ask(&server, "GET", "/readyz");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    let ready: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(ready["recovering_partitions"], 3);
    assert_eq!(
        ready["reasons"],
        serde_json::json!([
            "3 partitions are being recovered after an unclean stop",
            "1 coordinators of groups or transactions are loading",
        ])
    );
    assert_eq!(ask(&server, "GET", "/healthz").0, "HTTP/1.1 200 OK", "a broker that recovers is alive");
}

#[test]
fn fenced_broker_is_not_ready_and_shows_membership() {
    let (fake, server) = start();
    assert!(
        !ask(&server, "GET", "/metrics").2.contains("levada_cluster_"),
        "the broker is its own controller"
    );
    let mut state = MembershipState { phase: "recovery", is_fenced: true, ..MembershipState::default() };
    (state.broker_epoch, state.controller, state.high_watermark) = (Some(12), Some(3), 100);
    (state.applied, state.since_heartbeat_ms) = (90, Some(1500));
    (state.since_applied_ms, state.publication_errors) = (Some(250), 1);
    (state.publications.buckets[0], state.publications.sum_ns) = (3, 150_000);
    *fake.membership.lock().unwrap() = Some(state);
    let (status, _, body) = ask(&server, "GET", "/readyz");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    let ready: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(ready["reasons"], serde_json::json!(["the controllers fence this broker"]));
    let expected = serde_json::json!(
        {"phase": "recovery", "fenced": true, "broker_epoch": 12, "controller": 3, "lag": 9}
    );
    assert_eq!(ready["cluster"], expected);
    let text = ask(&server, "GET", "/metrics").2;
    for sample in [
        "levada_cluster_phase{phase=\"recovery\"} 1\n",
        "levada_cluster_phase{phase=\"running\"} 0\n",
        "levada_cluster_fenced 1\n",
        "levada_cluster_active_controller 3\n",
        "levada_cluster_metadata_offset 90\n",
        "levada_cluster_metadata_lag 9\n",
        "levada_cluster_metadata_record_age_seconds 0.25\n",
        "levada_cluster_metadata_publication_seconds_count 3\n",
        "levada_cluster_metadata_publication_seconds_sum 0.00015\n",
        "levada_cluster_metadata_publication_errors_total 1\n",
        "levada_cluster_heartbeat_age_seconds 1.5\n",
        "levada_cluster_forwarded_requests_total{result=\"failed\"} 0\n",
        "levada_follower_lag_records{topic=\"clicks\",partition=\"1\"} 30\n",
        "levada_follower_lag_records_max 30\n",
        "levada_replica_fetch_errors_total 2\n",
        "levada_replica_fetched_bytes_total 7\n",
    ] {
        assert!(text.contains(sample), "{sample}: {text}");
    }
    assert!(!text.contains("levada_cluster_metadata_age_seconds "), "no controller has answered yet");
}

#[test]
fn metrics_format_follows_the_accept_header() {
    let (_fake, server) = start();
    let open = "application/openmetrics-text; version=1.0.0";
    let plain = "text/plain; version=0.0.4";
    for (accept, expected) in [
        ("", plain),
        ("accept: */*\r\n", plain),
        ("accept: text/html\r\n", plain),
        ("accept: application/openmetrics-text\r\n", open),
        // Prometheus 2.42
        (
            "accept: application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n",
            open,
        ),
        ("accept: application/openmetrics-text;q=0.1, text/plain;q=0.9\r\n", plain),
        ("accept: application/openmetrics-text;q=0\r\n", plain),
    ] {
        let (status, headers, body) = ask_for(&server, "GET", "/metrics", accept);
        assert_eq!(status, "HTTP/1.1 200 OK");
        assert!(headers.contains(&format!("content-type: {expected}")), "{accept}: {headers}");
        assert_eq!(body.ends_with("# EOF\n"), expected == open, "{accept}");
        let counter = if expected == open { "levada_produced_bytes" } else { "levada_produced_bytes_total" };
        assert!(body.contains(&format!("\n# TYPE {counter} counter\n")), "{body}");
    }
}

#[test]
fn scrape_can_omit_topics_and_groups() {
    let (_fake, server) = start();
    let series = ["topic=\"clicks\"", "group=\"readers\"", "levada_log_size_bytes"];
    let (_, _, body) = ask(&server, "GET", "/metrics?topics=true");
    assert!(series.iter().all(|series| body.contains(series)), "{body}");
    let (status, _, body) = ask(&server, "GET", "/metrics?topics=false");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(!series.iter().any(|series| body.contains(series)), "{body}");
    assert!(body.contains("levada_transactions_total"), "{body}");
    let (status, _, body) = ask(&server, "GET", "/metrics?topic=no");
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert!(body.contains("topics=true|false"), "{body}");
}

#[test]
fn http_methods_and_paths_get_standard_responses() {
    let (_fake, server) = start();
    for path in ["/healthz", "/readyz", "/metrics"] {
        let (status, headers, body) = ask(&server, "HEAD", path);
        assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""), "{path}");
        assert!(!headers.contains("content-length: 0"), "{headers}");
        let (status, headers, _) = ask(&server, "POST", path);
        assert_eq!(status, "HTTP/1.1 405 Method Not Allowed", "{path}");
        assert!(headers.contains("allow: get,head"), "{headers}");
    }
    assert_eq!(ask(&server, "GET", "/").0, "HTTP/1.1 404 Not Found");
    assert_eq!(ask(&server, "GET", "/metrics/").0, "HTTP/1.1 404 Not Found");
}

/// Lines of the scrape in the test below.
const SHOWN: &[&str] = &[
    "levada_requests_total{api=\"Produce\"} 2",
    "levada_request_bytes_total{api=\"Produce\"} 100",
    "levada_request_errors_total{api=\"Produce\",error=\"NONE\"} 1",
    "levada_request_errors_total{api=\"Produce\",error=\"UNKNOWN_TOPIC_OR_PARTITION\"} 1",
    "levada_request_throttled_seconds_bucket{le=\"0.001\",api=\"Produce\"} 0",
    "levada_request_throttled_seconds_bucket{le=\"0.0025\",api=\"Produce\"} 1",
    "levada_request_throttled_seconds_bucket{le=\"+Inf\",api=\"Produce\"} 1",
    "levada_request_throttled_seconds_sum{api=\"Produce\"} 0.002",
    "levada_request_duration_seconds_count{api=\"Produce\"} 0",
    "levada_connections_opened_total{listener=\"PLAINTEXT\"} 2",
    "levada_connections{listener=\"PLAINTEXT\"} 1",
    "levada_client_connections{software=\"librdkafka\",version=\"2.6.0\"} 1",
    "levada_authentications_total{listener=\"PLAINTEXT\",mechanism=\"PLAIN\",result=\"failure\"} 1",
    "levada_client_telemetry_instances 4",
    "levada_client_telemetry_clients 3",
    "levada_client_telemetry_series 60",
    "levada_client_telemetry_bytes 9000",
    "levada_client_telemetry_pushes_total{outcome=\"accepted\"} 11",
    "levada_client_telemetry_pushes_total{outcome=\"unknown_subscription\"} 2",
    "levada_client_telemetry_pushes_total{outcome=\"damaged\"} 1",
    "levada_client_telemetry_throttled_total 5",
    "levada_client_telemetry_evicted_clients_total 8",
    "levada_client_telemetry_left_out_points_total 9",
    "levada_client_telemetry_not_exported_series 6",
    "levada_client_metric{metric=\"a.latency.avg\",client_id=\"orders \\\"1\\\"\",client_instance_id=\"BwcHBwcHBwcHBwcHBwcHBw\",attributes=\"node_id=1\"} 2.5",
    "levada_client_metric_sum_total{metric=\"a.records.total\",client_id=\"orders \\\"1\\\"\",client_instance_id=\"BwcHBwcHBwcHBwcHBwcHBw\",attributes=\"\"} 2.5",
    "levada_topic_produced_bytes_total{topic=\"clicks\"} 200",
    "levada_topic_produced_records_total{topic=\"clicks\"} 20",
    "levada_topic_produced_batches_total{topic=\"views\"} 2",
    "levada_topic_fetched_bytes_total{topic=\"clicks\"} 600",
    "levada_topic_failed_produces_total{topic=\"clicks\"} 2",
    "levada_topic_failed_fetches_total{topic=\"views\"} 4",
    "levada_log_size_bytes{topic=\"clicks\",partition=\"1\"} 90",
    "levada_log_start_offset{topic=\"views\",partition=\"0\"} 5",
    "levada_remote_copied_bytes_total 11",
    "levada_remote_cache_lookups_total{outcome=\"miss\"} 3",
    "levada_remote_log_size_bytes{topic=\"views\",partition=\"0\"} 7",
    "levada_remote_copy_lag_segments{topic=\"views\",partition=\"0\"} 1",
    "levada_log_end_offset{topic=\"views\",partition=\"0\"} 15",
    "levada_series_left_out{kind=\"topic\"} 0",
    "levada_offline_partitions 0",
    "levada_led_partitions 6",
    "levada_under_replicated_partitions 4",
    "levada_under_min_isr_partitions 5",
    "levada_preferred_leader_imbalance_partitions 9",
    "levada_client_id_bytes_per_second{client_id=\"orders \\\"1\\\"\",direction=\"produced\"} 60.0",
    "levada_client_id_bytes_per_second{client_id=\"orders \\\"1\\\"\",direction=\"fetched\"} 0.0",
    "levada_client_id_bytes_per_second{client_id=\"\",direction=\"fetched\"} 30.0",
    "levada_user_bytes_per_second{user=\"ann\",direction=\"produced\"} 60.0",
    "levada_user_bytes_per_second{user=\"ann\",direction=\"fetched\"} 30.0",
    "levada_quota_rate{quota=\"producer_byte_rate\",user=\"ann\",client_id=\"\"} 250.5",
    "levada_quota_limit{quota=\"producer_byte_rate\",user=\"ann\",client_id=\"\"} 1000.0",
    "levada_isr_changes_total{change=\"expansion\"} 1",
    "levada_isr_changes_total{change=\"shrink\"} 2",
    "levada_isr_changes_total{change=\"failed\"} 3",
    "levada_replication_throttled_bytes_total{side=\"leader\"} 700",
    "levada_replication_throttled_bytes_total{side=\"follower\"} 800",
    "levada_retention_deleted_bytes_total 2048",
    "levada_log_directory_bytes{directory=\"/data\"} 700",
    "levada_log_directory_bytes{directory=\"/more\"} 0",
    "levada_disk_free_bytes{directory=\"/data\"} 1000",
    "levada_log_flush_seconds_count 0",
    "levada_cleaner_backlog_bytes 77",
    "levada_group_members{group=\"readers\"} 2",
    "levada_group_state{group=\"readers\",type=\"consumer\",state=\"Stable\"} 1",
    "levada_group_rebalances_total{group=\"readers\"} 7",
    "levada_group_lag_records{group=\"readers\",topic=\"clicks\",partition=\"1\"} 3",
    "levada_group_committed_offset{group=\"readers\",topic=\"clicks\",partition=\"1\"} 40",
    "levada_group_lag_seconds{group=\"readers\",topic=\"clicks\",partition=\"0\"} 1.5",
    "levada_groups_left_out 1",
    "levada_share_sessions 3",
    "levada_share_partitions 1",
    "levada_share_tracked_bytes 640",
    "levada_share_acquired_records_total 30",
    "levada_share_expired_records_total 2",
    "levada_share_acknowledged_records_total{type=\"accept\"} 20",
    "levada_share_dead_letters_total{group=\"orders\",outcome=\"written\"} 6",
    "levada_share_dead_letters_total{group=\"orders\",outcome=\"given_up\"} 2",
    "levada_share_group_fetch_lock_seconds_total{group=\"queue\",topic=\"clicks\",partition=\"0\"} 1.5",
    "levada_share_dead_letter_requests_total{group=\"orders\"} 4",
    "levada_share_dead_letter_failures_total{group=\"orders\"} 1",
    "levada_share_group_lag_records{group=\"queue\",topic=\"clicks\",partition=\"0\"} 12",
    "levada_share_group_in_flight_records{group=\"queue\",topic=\"clicks\",partition=\"0\"} 5",
    "levada_share_group_in_flight_batches{group=\"queue\",topic=\"clicks\",partition=\"0\"} 2",
    "levada_share_group_expired_records_total{group=\"queue\",topic=\"clicks\",partition=\"0\"} 1",
    "levada_share_group_fetch_locks_total{group=\"queue\",topic=\"clicks\",partition=\"0\"} 9",
    "levada_share_partition_load_seconds_count 1",
    "levada_transactional_ids{state=\"Ongoing\"} 2",
    "levada_transactions_total{outcome=\"committed\"} 8",
    "levada_late_transaction_partitions 1",
    "levada_http_connections 1",
    "levada_produced_bytes_total 100",
    "levada_fetched_bytes_total 40",
    "levada_replication_sent_bytes_total 50",
    "levada_partitions 7",
    "levada_request_bytes_held 8",
    "levada_acks_durability_partitions{topic=\"clicks\",durability=\"fdatasync\"} 2",
    "levada_append_lane_hold_seconds_max{work=\"append\"} 0.0015",
    "levada_recovery_partitions 7",
    "levada_recovery_checked_bytes_total 1234",
    "levada_cleaner_runs_total 3",
    "levada_cleaner_read_bytes_total 500",
    "levada_cleaner_written_bytes_total 90",
    "levada_cleaner_dirtiest_ratio 0.41",
    "levada_cleaner_uncleanable_partitions 1",
    "levada_transfer_bytes_total{path=\"splice\"} 0",
    "levada_transfer_calls_total{path=\"sendfile\"} 0",
    "levada_transfer_stalls_total{path=\"read_write\"} 0",
    "levada_transfer_fallbacks_total{cause=\"cold_read\"} 0",
    "levada_transfer_copied_bytes_total 0",
    "process_start_time_seconds 5.0",
];

#[test]
fn metrics_show_counted_requests() {
    let (fake, server) = start();
    let recorder = fake.stats.recorder();
    recorder.received(ApiKey::Produce, 70);
    recorder.received(ApiKey::Produce, 30);
    recorder.error(ApiKey::Produce, 0);
    recorder.error(ApiKey::Produce, 3);
    recorder.throttled(ApiKey::Produce, Duration::from_millis(2));
    let open = fake.stats.connection("PLAINTEXT");
    drop(fake.stats.connection("PLAINTEXT"));
    let named = fake.stats.software("librdkafka", "2.6.0");
    fake.stats.authentication("PLAINTEXT", "PLAIN", "failure");
    fake.stats.produced(100);
    fake.stats.fetched(40);
    fake.stats.replicated(50);
    // In the first second.
    fake.stats.client("ann", "orders \"1\"").produced(60);
    fake.stats.client("ann", "").fetched(30);
    let (status, headers, body) = ask(&server, "GET", "/metrics");
    drop((open, named));
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(headers.contains("content-type: text/plain; version=0.0.4"), "{headers}");
    for line in SHOWN {
        assert!(body.lines().any(|found| found == *line), "{line} is not in\n{body}");
    }
    let resident = body.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap();
    assert!(resident.parse::<u64>().unwrap() > 100_000, "{resident}");
    assert!(!body.contains("api=\"Fetch\""), "an API nobody asked for has no series");
}

#[test]
fn stopping_does_not_wait_for_idle_connections() {
    let (_fake, server) = start();
    let mut idle = TcpStream::connect(server.address()).unwrap();
    drop(server);
    assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn web_address_serves_while_broker_closes_logs() {
    let (_fake, web) = start();
    let mut served = Served { web, console: Some(thread::spawn(|| {})) };
    served.join();
    assert!(served.console.is_none(), "the thread of the console has ended");
    assert_eq!(ask(&served.web, "GET", "/healthz").0, "HTTP/1.1 200 OK");
}

#[test]
fn expired_connection_ends_after_its_response() {
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        "done"
    };
    let router = Router::new().route("/slow", routing::get(slow));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = LocalSet::new().block_on(&runtime, async {
        let listener = Rc::new(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let places = Arc::new(Places::new(1));
        let life = Duration::from_millis(50);
        tokio::task::spawn_local(accept(
            (listener, places),
            Site { router, source: Arc::new(Fake::default()), life },
        ));
        let asked = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        asked.await.unwrap()
    });
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\ndone"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
}

#[test]
fn http_requests_need_the_token() {
    let fake = Fake::default();
    let token = Some(Secret::from("s3cret"));
    let server = WebServer::start(loopback(), token, Arc::new(fake), Router::new()).unwrap();
    let check = |authorization: &str, expected: &str| {
        for path in ["/metrics", "/healthz", "/"] {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
            write!(stream, "{head}{authorization}\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let found = answer.split(' ').nth(1).unwrap();
            let expected = if path == "/" && expected == "200" { "404" } else { expected };
            assert_eq!(found, expected, "{path} {authorization}");
            assert!(!answer.contains("s3cret"));
        }
    };
    check("", "401");
    check("authorization: Bearer s3cret\r\n", "200");
    check("authorization: bearer  s3cret\r\n", "200");
    check("authorization: Bearer s3cre\r\n", "401");
    check("authorization: Bearer\r\n", "401");
    // prometheus:s3cret and prometheus:other
    check("authorization: Basic cHJvbWV0aGV1czpzM2NyZXQ=\r\n", "200");
    check("authorization: Basic cHJvbWV0aGV1czpvdGhlcg==\r\n", "401");
    check("authorization: Basic ???\r\n", "401");
}

#[test]
fn foreign_host_header_is_refused() {
    let (_fake, server) = start();
    let port = server.address().port();
    let status = |head: &str| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        write!(stream, "GET {head}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:9644", &format!("127.0.0.1:{port}")] {
        assert_eq!(status(&format!("/metrics HTTP/1.1\r\nhost: {host}")), "200", "{host}");
    }
    assert_eq!(status("/metrics HTTP/1.0\r\nx: y"), "200");
    for host in ["evil.test", "evil.test:9644", "localhost.evil.test", "127.0.0.1.evil.test", "", "?"] {
        let found = status(&format!("/metrics HTTP/1.1\r\nhost: {host}"));
        assert!(["421", "400"].contains(&&*found), "{host}: {found}");
    }
    assert_eq!(status("http://evil.test/metrics HTTP/1.1\r\nhost: localhost"), "421");
}

#[test]
fn cross_site_pages_cannot_read_metrics() {
    let (_fake, server) = start();
    let image = "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\nsec-fetch-dest: image\r\n";
    for path in ["/metrics", "/healthz", "/readyz"] {
        for (head, expected) in [("", "HTTP/1.1 200 OK"), (image, "HTTP/1.1 403 Forbidden")] {
            let (status, headers, _) = ask_for(&server, "GET", path, head);
            assert_eq!(status, expected, "{path}");
            for header in [
                "x-content-type-options: nosniff",
                "cross-origin-resource-policy: same-origin",
                "x-frame-options: deny",
            ] {
                assert!(headers.contains(header), "{path}: {headers}");
            }
        }
    }
}

#[test]
fn newer_connections_replace_incomplete_http_requests() {
    let (_fake, server) = start();
    // More than there may be: the newest take the places of the oldest.
    let mut halves: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut half = TcpStream::connect(server.address()).unwrap();
            write!(half, "GET /metrics HTTP/1.1\r\nhost: loc").unwrap();
            half
        })
        .collect();
    let asked = Instant::now();
    assert_eq!(ask(&server, "GET", "/healthz").0, "HTTP/1.1 200 OK");
    assert!(asked.elapsed() < HEAD_TIME / 2, "it does not wait for the half requests");
    for half in &mut halves {
        half.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut rest = Vec::new();
        // The end of a connection with unread bytes is a reset.
        let _ = half.read_to_end(&mut rest);
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn incomplete_request_bodies_keep_no_probe_out() {
    let (_fake, server) = start();
    let halves: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut half = TcpStream::connect(server.address()).unwrap();
            write!(half, "POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n").unwrap();
            half
        })
        .collect();
    let asked = Instant::now();
    assert_eq!(ask(&server, "GET", "/healthz").0, "HTTP/1.1 200 OK");
    assert!(asked.elapsed() < HEAD_TIME / 2, "it does not wait for the bodies");
    drop(halves);
}

#[test]
fn unauthenticated_http_client_is_disconnected() {
    let token = Some(Secret::from("s3cret"));
    let server = WebServer::start(loopback(), token, Arc::new(Fake::default()), Router::new()).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream.set_read_timeout(Some(HEAD_TIME / 2)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the broker closes the connection");
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("connection: close\r\n"), "{answer}");
}
