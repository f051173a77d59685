//! Clients that push their own metrics (KIP-714) at the interval of a subscription, each with its
//! own connection.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_wire::Uuid;
use levada_wire::messages::{GetTelemetrySubscriptionsRequest, PushTelemetryRequest};

use crate::error::LabError;
use crate::experiments::broker::harness::config;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::frames;
use crate::experiments::broker::harness::metrics::Scrape;
use crate::experiments::broker::harness::node::Node;
use crate::harness::pace::FixedRate;

const SUBSCRIPTION: (i8, &str) = (config::CLIENT_METRICS, "lab");

/// Interval between two pushes of a client.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

/// Number of gauges in a push.
const GAUGES: usize = 100;

/// Limit for the time until a new subscription takes effect.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Number of client instances that a broker knows.
pub(super) fn known(scrape: &Scrape) -> Option<f64> {
    scrape.sum("levada_client_telemetry_instances")
}

/// Clients that push metrics. Drop closes their connections.
#[derive(Debug)]
pub(super) struct Pushers {
    thread: Option<(Sender<()>, Pushing)>,
}

/// Thread that pushes the metrics of all clients.
type Pushing = JoinHandle<Result<(), LabError>>;

impl Pushers {
    /// Creates the subscription and connects the clients. Returns once each client has received its
    /// subscription. The pushes are spread over the interval.
    pub(super) fn open(node: &Node, count: usize) -> Result<Self, LabError> {
        let interval = INTERVAL.as_millis().to_string();
        let keys = [("metrics", Some("*")), ("interval.ms", Some(interval.as_str()))];
        config::alter(node, SUBSCRIPTION, &keys)?;
        let clients = (0..count).map(|_| Pusher::connect(node)).collect::<Result<Vec<_>, LabError>>()?;
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let mut clients = clients;
            let (pace, metrics) =
                (FixedRate::new(Instant::now(), count as f64 / INTERVAL.as_secs_f64()), payload());
            for number in 0.. {
                let wait = pace.due(number).saturating_duration_since(Instant::now());
                if !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
                    break;
                }
                let at = usize::try_from(number).unwrap_or_default() % clients.len().max(1);
                clients[at].push(metrics.clone())?;
            }
            Ok(())
        });
        Ok(Self { thread: Some((stop, thread)) })
    }

    /// Ends the pushes and deletes the subscription.
    pub(super) fn close(mut self, node: &Node) -> Result<(), LabError> {
        self.end()?;
        config::alter(node, SUBSCRIPTION, &[("metrics", None), ("interval.ms", None)])
    }

    fn end(&mut self) -> Result<(), LabError> {
        let Some((stop, thread)) = self.thread.take() else { return Ok(()) };
        drop(stop);
        crate::harness::pace::joined(thread.join())
    }
}

impl Drop for Pushers {
    fn drop(&mut self) {
        // The caller already reports an error of the experiment.
        let _ = self.end();
    }
}

/// One client instance.
struct Pusher {
    connection: Connection,
    instance: Uuid,
    subscription: i32,
}

impl Pusher {
    /// Connects a client and waits until the subscription takes effect.
    fn connect(node: &Node) -> Result<Self, LabError> {
        let start = Instant::now();
        loop {
            let mut connection = Connection::open(node.address())?;
            let response = connection.ask(0, &GetTelemetrySubscriptionsRequest::default())?;
            match response.error_code {
                0 if !response.requested_metrics.is_empty() => {
                    let (instance, subscription) = (response.client_instance_id, response.subscription_id);
                    return Ok(Self { connection, instance, subscription });
                }
                0 if start.elapsed() < LIMIT => thread::sleep(PAUSE),
                error => return Err(frames::refused("GetTelemetrySubscriptions", error)),
            }
        }
    }

    fn push(&mut self, metrics: Bytes) -> Result<(), LabError> {
        let mut request = PushTelemetryRequest::default();
        (request.client_instance_id, request.subscription_id) = (self.instance, self.subscription);
        request.metrics = metrics;
        match self.connection.ask(0, &request)?.error_code {
            0 => Ok(()),
            error => Err(frames::refused("PushTelemetry", error)),
        }
    }
}

/// `MetricsData` of OpenTelemetry: gauges without attributes, with names as long as those of Kafka.
fn payload() -> Bytes {
    let gauge = |number: usize| {
        let name = format!("org.apache.kafka.producer.node.request.latency.avg.{number:03}");
        let value = (number as f64).to_le_bytes();
        let point = [&[4 << 3 | 1][..], &value].concat();
        let metric = [field(1, name.as_bytes()), field(5, &field(1, &point))].concat();
        field(2, &metric)
    };
    let scope: Vec<u8> = (0..GAUGES).flat_map(gauge).collect();
    Bytes::from(field(1, &field(2, &scope)))
}

/// Length-delimited field of a Protocol Buffers message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut field = vec![number << 3 | 2];
    field.extend([0, 7].map(|bits| (length >> bits & 0x7f) as u8 | 0x80));
    field.push((length >> 14) as u8);
    field.extend_from_slice(content);
    field
}
