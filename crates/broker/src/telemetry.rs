//! Client telemetry (KIP-714): the subscriptions of the metadata, the client instances of this
//! broker, and the metrics that they push. The machines are in `levada_telemetry`.
//!
//! Without a subscription and without a request there is nothing but empty tables: no thread and no
//! timer. Client instances have a lock of their own, which no expansion of a payload holds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use levada_base::compress::{CompressError, Compression, decompress};
use levada_config::{ClientMetrics, TelemetryConfig, TelemetryOffer};
use levada_metadata::image::{Image, ResourceKind};
use levada_process::clock::steady_ms;
use levada_telemetry::otlp::Damaged;
use levada_telemetry::{
    Client, ClientRow, GetRefusal, Identity, Instances, KeptLimits, KeptMetrics, MatchPattern, Offer, Origin,
    Push, PushRefusal, Requested, Subscription, Subscriptions,
};
use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::live_config::LiveConfig;
use crate::source::TelemetryState;

/// Bytes of the metrics of all clients at most, about.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Maximum number of series in one scrape of the metrics.
const EXPORTED_MAX: usize = 10_000;

/// The subscriptions of an image.
#[derive(Default)]
struct InForce {
    /// Number of this version of the subscriptions; each change gets a new one.
    version: u64,
    subscriptions: Subscriptions,
}

/// Reason why the payload of a push is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    #[error(transparent)]
    Compressed(#[from] CompressError),
    #[error("the metrics are damaged: {0}")]
    Damaged(#[from] Damaged),
}

/// Client telemetry of this broker.
pub(crate) struct ClientTelemetry {
    config: Arc<LiveConfig>,
    in_force: ArcSwap<InForce>,
    instances: Mutex<Instances>,
    kept: Mutex<KeptMetrics>,
    pushes: AtomicU64,
    throttled: AtomicU64,
    unknown_subscriptions: AtomicU64,
    damaged: AtomicU64,
}

impl ClientTelemetry {
    /// Client telemetry without subscriptions.
    pub(crate) fn new(config: Arc<LiveConfig>) -> Self {
        Self {
            config,
            in_force: ArcSwap::default(),
            instances: Mutex::default(),
            kept: Mutex::default(),
            pushes: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            unknown_subscriptions: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
        }
    }

    /// Applies the subscriptions of an image.
    pub(crate) fn configure(&self, image: &Image) {
        let resources = image.config_resources();
        let resources = resources.filter(|(resource, _)| resource.kind == ResourceKind::ClientMetrics);
        let all = resources.filter_map(|(resource, values)| {
            let made = subscription(&resource.name, &ClientMetrics::of(values));
            let name = resource.name.as_str();
            made.inspect_err(|(pattern, error)| {
                tracing::warn!(
                    subscription = name,
                    pattern,
                    error,
                    "client metrics: a pattern cannot be used, and the subscription matches no client"
                );
            })
            .ok()
        });
        let subscriptions = Subscriptions::new(all.collect());
        let version = self.in_force.load().version + 1;
        self.in_force.store(Arc::new(InForce { version, subscriptions }));
    }

    /// True if clients that connect are offered telemetry.
    pub(crate) fn is_offered(&self) -> bool {
        let config = self.config.load();
        match config.telemetry.offer {
            TelemetryOffer::Always => true,
            TelemetryOffer::Never => false,
            TelemetryOffer::Auto => {
                !config.telemetry.exported.is_empty() || !self.in_force.load().subscriptions.is_empty()
            }
        }
    }

    /// Processes a request for subscriptions. Returns the id of the client's subscription, and the
    /// metrics that the client is to push.
    ///
    /// # Errors
    /// The request comes too early.
    pub(crate) fn get(
        &self,
        client: &Identity<'_>,
        connection: &TelemetryConnection,
    ) -> Result<(i32, Requested), GetRefusal> {
        let in_force = self.in_force.load();
        let requested = in_force.subscriptions.requested_of(client);
        let offer = Offer { instance_id: client.instance_id, version: in_force.version, now_ms: steady_ms() };
        let mut instances = self.instances.lock();
        connection.note(&instances, &offer);
        match instances.get(&offer, &requested) {
            Ok(subscription_id) => Ok((subscription_id, requested)),
            Err(refusal) => {
                self.throttled.fetch_add(1, Ordering::Relaxed);
                Err(refusal)
            }
        }
    }

    /// Checks a push before its payload is read. Returns the client's interval in milliseconds.
    ///
    /// # Errors
    /// The push is refused.
    pub(crate) fn push(
        &self,
        client: &Identity<'_>,
        push: &Push,
        connection: &TelemetryConnection,
    ) -> Result<i32, PushRefusal> {
        let in_force = self.in_force.load();
        let offer = Offer { instance_id: client.instance_id, version: in_force.version, now_ms: steady_ms() };
        let mut instances = self.instances.lock();
        connection.note(&instances, &offer);
        let pushed = instances.push(&offer, push, || in_force.subscriptions.requested_of(client));
        match pushed {
            Err(PushRefusal::Throttled) => self.throttled.fetch_add(1, Ordering::Relaxed),
            Err(PushRefusal::UnknownSubscription) => {
                self.unknown_subscriptions.fetch_add(1, Ordering::Relaxed)
            }
            Err(_) => 0,
            Ok(_) => self.pushes.fetch_add(1, Ordering::Relaxed),
        };
        pushed
    }

    /// Keeps the payload of a push. Expands and copies it.
    ///
    /// # Errors
    /// The payload expands to more bytes than a push may have, or is damaged.
    pub(crate) fn keep(
        &self,
        origin: &Origin<'_>,
        (codec, payload): (Compression, &[u8]),
    ) -> Result<(), PayloadError> {
        let config = self.config.load();
        let TelemetryConfig { max_bytes, max_clients, max_series, .. } = config.telemetry;
        let limits =
            KeptLimits { clients: max_clients as usize, series: max_series as usize, bytes: KEPT_BYTES_MAX };
        let mut expanded = Vec::new();
        let kept = decompress(codec, payload, &mut expanded, max_bytes as usize)
            .map_err(PayloadError::from)
            .and_then(|()| Ok(self.kept.lock().keep(origin, &expanded, &limits, steady_ms())?));
        if kept.is_err() {
            self.damaged.fetch_add(1, Ordering::Relaxed);
        }
        kept
    }

    /// Ends clients that have been silent for long.
    pub(crate) fn expire(&self) {
        let now_ms = steady_ms();
        self.instances.lock().expire(now_ms);
        self.kept.lock().expire(now_ms);
    }

    /// State for the metrics.
    pub(crate) fn state(&self) -> TelemetryState {
        self.expire();
        let instances = self.instances.lock().len();
        let kept = self.kept.lock();
        let (exported, beyond) = kept.exported(&self.config.load().telemetry.exported, EXPORTED_MAX);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TelemetryState {
            instances: instances as u64,
            clients: kept.len() as u64,
            series: kept.series_count() as u64,
            bytes: kept.bytes() as u64,
            pushes: count(&self.pushes),
            throttled: count(&self.throttled),
            unknown_subscriptions: count(&self.unknown_subscriptions),
            damaged: count(&self.damaged),
            clients_evicted: kept.evicted(),
            points_left_out: kept.left_out(),
            exported,
            not_exported: beyond,
        }
    }

    /// Clients whose ids, names or groups contain a text, up to a limit, with the largest values of
    /// these metrics. The client with the latest push comes first.
    pub(crate) fn rows(&self, text: &str, max: usize, names: &[&str]) -> Vec<ClientRow> {
        self.expire();
        self.kept.lock().rows(max, names, |about| {
            let labels = about.labels.values().map(String::as_str);
            let mut texts = labels.chain([about.client_id.as_str(), &about.user, &about.software]);
            texts.any(|one| one.contains(text))
        })
    }

    /// The metrics of a client.
    pub(crate) fn client(&self, instance_id: Uuid) -> Option<Client> {
        self.expire();
        self.kept.lock().client(instance_id)
    }
}

/// The subscription with these settings. The error is a pattern and the reason why it cannot be
/// used.
fn subscription(name: &str, settings: &ClientMetrics) -> Result<Subscription, (String, String)> {
    let patterns = settings.patterns.iter().map(|(attribute, expression)| {
        let pattern = MatchPattern::new(attribute, expression);
        pattern.map_err(|error| (format!("{attribute}={expression}"), error.to_string()))
    });
    Ok(Subscription {
        name: name.to_owned(),
        metrics: settings.metrics.clone(),
        interval_ms: settings.interval_ms,
        patterns: patterns.collect::<Result<_, _>>()?,
    })
}

/// Checks that the patterns of a subscription can be compared with clients. Java's expressions have
/// more than this broker knows.
///
/// # Errors
/// A pattern, and the reason.
pub(crate) fn check_patterns(settings: &ClientMetrics) -> Result<(), (String, String)> {
    subscription("", settings).map(drop)
}

/// A connection that has created a client instance, which ends with the connection.
pub(crate) struct TelemetryConnection {
    room: Arc<ClientTelemetry>,
    instance: Mutex<Option<Uuid>>,
}

impl TelemetryConnection {
    pub(crate) fn new(room: &Arc<ClientTelemetry>) -> Self {
        Self { room: room.clone(), instance: Mutex::default() }
    }

    /// Records the instance if the request creates it. As in Kafka, the last instance of a
    /// connection ends with the connection.
    fn note(&self, instances: &Instances, offer: &Offer) {
        if instances.is_new(offer) {
            *self.instance.lock() = Some(offer.instance_id);
        }
    }
}

impl fmt::Debug for TelemetryConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryConnection").finish_non_exhaustive()
    }
}

impl Drop for TelemetryConnection {
    fn drop(&mut self) {
        if let Some(instance_id) = self.instance.get_mut().take() {
            self.room.instances.lock().disconnected(instance_id);
        }
    }
}

#[cfg(test)]
mod tests;
