//! The latest metrics of each client, in bounded memory: with limits of clients, of series per
//! client, and of bytes. The client whose last push is the oldest is evicted for another.

use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::mem;
use std::net::SocketAddr;

use levada_wire::Uuid;
use lru::LruCache;

use crate::instances::idle_ms;
use crate::otlp::{self, Damaged, Kind, Point, Visitor};

/// Longest name of a metric, with its attributes, in bytes: a longer one is left out.
const SERIES_NAME_BYTES_MAX: usize = 512;

/// Longest name of the client or of its library, and longest value of a label, in bytes: the rest
/// is cut.
const NAME_BYTES_MAX: usize = 256;

/// Maximum number of labels of a client.
const LABELS_MAX: usize = 16;

/// Pushes without a value after which a sum is dropped.
const SILENT_PUSHES_MAX: u32 = 10;

/// Time after the last push of an ended client for which its metrics are kept, ms.
const ENDED_MS: i64 = 60_000;

/// Separator of a series' name and its attributes.
const SEPARATOR: char = '\n';

/// Bytes of a client and of a series, besides their texts.
const CLIENT_BYTES: usize = 512;
const LABEL_BYTES: usize = 64;
const SERIES_BYTES: usize = mem::size_of::<(Box<str>, Series)>() * 2;

/// Limits of the metrics that are kept.
#[derive(Clone, Copy, Debug)]
pub struct KeptLimits {
    /// Maximum number of clients.
    pub clients: usize,
    /// Number of series of one client.
    pub series: usize,
    /// Bytes of all clients together, about.
    pub bytes: usize,
}

/// Sender of a push.
#[derive(Clone, Debug)]
pub struct Origin<'a> {
    /// Client instance id.
    pub instance_id: Uuid,
    /// Client id.
    pub client_id: &'a str,
    /// User of the connection.
    pub user: &'a str,
    /// Name and version of the client library.
    pub software: (&'a str, &'a str),
    /// Address and port.
    pub source: SocketAddr,
    /// Interval of the client's pushes, in milliseconds.
    pub interval_ms: i32,
    /// True if it is the client's last push.
    pub terminating: bool,
}

/// A series of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// The value; a sum since the client's first push that is kept.
    pub value: f64,
    /// True for a sum that never falls.
    pub is_counter: bool,
    /// True for a sum.
    is_sum: bool,
    /// Number of the push with its latest value.
    push: u32,
}

/// A client, without its metrics.
#[derive(Clone, Debug)]
pub struct About {
    /// Client id.
    pub client_id: String,
    /// User of the connection.
    pub user: String,
    /// Name of the client library.
    pub software: String,
    /// Version of the client library.
    pub version: String,
    /// Address and port.
    pub source: SocketAddr,
    /// Attributes that all metrics of the client have, such as its group.
    pub labels: BTreeMap<String, String>,
    /// Interval of the pushes, in milliseconds.
    pub interval_ms: i32,
    /// Time of the last push.
    pub pushed_ms: i64,
    /// True once the client has announced that the push was its last one.
    pub ended: bool,
    /// Number of points of the last push that were left out.
    pub left_out: u64,
}

impl About {
    fn new(origin: &Origin<'_>, now_ms: i64) -> Self {
        Self {
            client_id: cut(origin.client_id),
            user: cut(origin.user),
            software: cut(origin.software.0),
            version: cut(origin.software.1),
            source: origin.source,
            labels: BTreeMap::new(),
            interval_ms: origin.interval_ms,
            pushed_ms: now_ms,
            ended: origin.terminating,
            left_out: 0,
        }
    }

    fn expires_ms(&self) -> i64 {
        self.pushed_ms + if self.ended { ENDED_MS } else { idle_ms(self.interval_ms) }
    }

    fn bytes(&self) -> usize {
        let labels = self.labels.iter().map(|(name, value)| name.len() + value.len() + LABEL_BYTES);
        let names = [&self.client_id, &self.user, &self.software, &self.version];
        CLIENT_BYTES + labels.sum::<usize>() + names.map(|name| name.len()).iter().sum::<usize>()
    }
}

/// The beginning of a name.
fn cut(text: &str) -> String {
    let end = (0..=NAME_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or_default()].to_owned()
}

/// A client with its metrics.
#[derive(Clone, Debug)]
pub struct Client {
    /// Identity of the client.
    pub about: About,
    series: HashMap<Box<str>, Series>,
    /// Number of the last push.
    push: u32,
    /// Bytes of the series.
    bytes: usize,
}

impl Client {
    /// Number of series.
    pub fn series_count(&self) -> usize {
        self.series.len()
    }

    /// Names, attributes (`name=value,…`) and values of the series, in no order.
    pub fn series(&self) -> impl Iterator<Item = (&str, &str, &Series)> {
        self.series.iter().map(|(key, series)| {
            let (name, attributes) = key.split_once(SEPARATOR).unwrap_or((key, ""));
            (name, attributes, series)
        })
    }

    /// The largest values of the metrics with these names.
    fn largest(&self, names: &[&str]) -> Vec<Option<f64>> {
        let mut largest: Vec<Option<f64>> = vec![None; names.len()];
        for (name, _, series) in self.series().filter(|(_, _, series)| series.value.is_finite()) {
            if let Some(at) = names.iter().position(|wanted| *wanted == name) {
                largest[at] = Some(largest[at].map_or(series.value, |value| value.max(series.value)));
            }
        }
        largest
    }

    /// Ends a push: drops gauges that it did not contain; sums may be missing for some pushes.
    fn settle(&mut self) {
        let push = self.push;
        let is_current = |series: &Series| {
            let silent = push.wrapping_sub(series.push);
            silent == 0 || (series.is_sum && silent < SILENT_PUSHES_MAX)
        };
        self.series.retain(|_, series| is_current(series));
        self.bytes = self.series.keys().map(|key| series_bytes(key)).sum();
    }
}

fn series_bytes(key: &str) -> usize {
    key.len() + SERIES_BYTES
}

/// A client in a list.
#[derive(Clone, Debug)]
pub struct ClientRow {
    /// Client instance id.
    pub instance_id: Uuid,
    /// Identity of the client.
    pub about: About,
    /// Number of its series.
    pub series_count: usize,
    /// The largest value of each requested metric.
    pub largest: Vec<Option<f64>>,
}

/// A series of a client that is exported.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// Client id of the sender.
    pub client_id: String,
    /// Client instance id.
    pub instance_id: Uuid,
    /// Name of the metric.
    pub name: String,
    /// Attributes of the series, as `name=value,…`.
    pub attributes: String,
    /// The value.
    pub value: f64,
    /// True for a sum that never falls.
    pub is_counter: bool,
}

/// The metrics of all clients.
#[derive(Debug)]
pub struct KeptMetrics {
    clients: LruCache<Uuid, Client, RandomState>,
    bytes: usize,
    evicted: u64,
    left_out: u64,
}

impl Default for KeptMetrics {
    fn default() -> Self {
        let clients = LruCache::unbounded_with_hasher(RandomState::new());
        Self { clients, bytes: 0, evicted: 0, left_out: 0 }
    }
}

impl KeptMetrics {
    /// Number of clients.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Number of series of all clients.
    pub fn series_count(&self) -> usize {
        self.clients.iter().map(|(_, client)| client.series_count()).sum()
    }

    /// Bytes of all clients, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Clients evicted for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Points that were left out: beyond the limit of a client, with a long name, or of a kind
    /// without a value.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Keeps the metrics of a payload that is not compressed.
    ///
    /// # Errors
    /// The payload is damaged. The points before the damage are kept.
    pub fn keep(
        &mut self,
        origin: &Origin<'_>,
        payload: &[u8],
        limits: &KeptLimits,
        now_ms: i64,
    ) -> Result<(), Damaged> {
        let before = self.clients.pop(&origin.instance_id);
        self.bytes -= before.as_ref().map_or(0, |client| client.bytes + client.about.bytes());
        let about = About::new(origin, now_ms);
        let mut client = before.map_or_else(
            || Client { about: about.clone(), series: HashMap::new(), push: 0, bytes: 0 },
            |client| Client { about: about.clone(), ..client },
        );
        client.push = client.push.wrapping_add(1);
        let mut filling = Filling { client: &mut client, series_max: limits.series, key: String::new() };
        let visited = otlp::visit(payload, &mut filling);
        client.settle();
        self.left_out += client.about.left_out;
        self.bytes += client.bytes + client.about.bytes();
        self.clients.push(origin.instance_id, client);
        while self.clients.len() > limits.clients || self.bytes > limits.bytes {
            self.evict();
        }
        visited
    }

    fn evict(&mut self) {
        if let Some((_, client)) = self.clients.pop_lru() {
            self.bytes -= client.bytes + client.about.bytes();
            self.evicted += 1;
        }
    }

    /// Removes the clients that have been silent for long.
    pub fn expire(&mut self, now_ms: i64) {
        let expired = self.clients.iter().filter(|(_, client)| client.about.expires_ms() <= now_ms);
        let expired: Vec<Uuid> = expired.map(|(id, _)| *id).collect();
        for client in expired.iter().filter_map(|id| self.clients.pop(id)) {
            self.bytes -= client.bytes + client.about.bytes();
        }
    }

    /// The clients with the latest pushes, for which `is_meant` is true, up to a limit; with the
    /// largest values of the metrics with these names.
    pub fn rows(&self, max: usize, names: &[&str], is_meant: impl Fn(&About) -> bool) -> Vec<ClientRow> {
        let meant = self.clients.iter().filter(|(_, client)| is_meant(&client.about));
        let rows = meant.take(max).map(|(id, client)| ClientRow {
            instance_id: *id,
            about: client.about.clone(),
            series_count: client.series_count(),
            largest: client.largest(names),
        });
        rows.collect()
    }

    /// A copy of a client.
    pub fn client(&self, instance_id: Uuid) -> Option<Client> {
        self.clients.peek(&instance_id).cloned()
    }

    /// The series of all clients whose names begin with one of the prefixes, up to a limit, and the
    /// number of series above it. Values that are not finite are omitted.
    pub fn exported(&self, prefixes: &[String], max: usize) -> (Vec<Exported>, u64) {
        let (mut exported, mut beyond) = (Vec::new(), 0);
        if prefixes.is_empty() {
            return (exported, beyond);
        }
        for (id, client) in &self.clients {
            let finite = client.series().filter(|(_, _, series)| series.value.is_finite());
            for (name, attributes, series) in finite {
                if !prefixes.iter().any(|prefix| name.starts_with(prefix.as_str())) {
                    continue;
                }
                if exported.len() >= max {
                    beyond += 1;
                    continue;
                }
                exported.push(Exported {
                    client_id: client.about.client_id.clone(),
                    instance_id: *id,
                    name: name.to_owned(),
                    attributes: attributes.to_owned(),
                    value: series.value,
                    is_counter: series.is_counter,
                });
            }
        }
        (exported, beyond)
    }
}

/// A client to which the parts of a payload are added.
struct Filling<'a> {
    client: &'a mut Client,
    series_max: usize,
    /// Buffer for the key of a series.
    key: String,
}

impl Visitor for Filling<'_> {
    fn label(&mut self, name: &str, value: &str) {
        let labels = &mut self.client.about.labels;
        if name.len() <= NAME_BYTES_MAX && (labels.len() < LABELS_MAX || labels.contains_key(name)) {
            labels.insert(name.to_owned(), cut(value));
        }
    }

    fn point(&mut self, point: &Point<'_>) {
        let is_named = !point.name.is_empty()
            && point.name.len() <= SERIES_NAME_BYTES_MAX
            && !point.name.contains(SEPARATOR);
        if !is_named {
            return self.left_out();
        }
        self.key.clear();
        self.key.push_str(point.name);
        self.key.push(SEPARATOR);
        point.attributes.write(&mut self.key);
        let push = self.client.push;
        let (is_sum, is_counter, is_change) = match point.kind {
            Kind::Gauge => (false, false, false),
            Kind::Delta { monotonic } => (true, monotonic, true),
            Kind::Total { monotonic } => (true, monotonic, false),
        };
        if let Some(series) = self.client.series.get_mut(self.key.as_str()) {
            let base = if is_change && series.is_sum { series.value } else { 0.0 };
            *series = Series { value: base + point.value, is_counter, is_sum, push };
        } else if self.key.len() <= SERIES_NAME_BYTES_MAX && self.client.series.len() < self.series_max {
            let series = Series { value: point.value, is_counter, is_sum, push };
            self.client.series.insert(self.key.as_str().into(), series);
        } else {
            self.left_out();
        }
    }

    fn left_out(&mut self) {
        self.client.about.left_out += 1;
    }
}

#[cfg(test)]
mod tests;
