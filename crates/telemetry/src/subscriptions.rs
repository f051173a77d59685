//! Subscriptions: the metrics that clients are to push, and the clients that they match.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use levada_base::id_text;
use levada_wire::Uuid;
use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::INTERVAL_MS_DEFAULT;

/// Maximum memory in bytes of a compiled expression, and of the cache of its matches.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// The metric name that stands for all metrics.
const ALL_METRICS: &str = "*";

/// A property of a client that a subscription can match.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Attribute {
    /// Text of the client instance id.
    InstanceId,
    /// Client id of the request.
    ClientId,
    /// Name of the client library.
    SoftwareName,
    /// Version of the client library.
    SoftwareVersion,
    /// Address of the client.
    SourceAddress,
    /// Port of the client.
    SourcePort,
}

impl Attribute {
    /// Names of the attributes in configurations.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("client_instance_id", Self::InstanceId),
        ("client_id", Self::ClientId),
        ("client_software_name", Self::SoftwareName),
        ("client_software_version", Self::SoftwareVersion),
        ("client_source_address", Self::SourceAddress),
        ("client_source_port", Self::SourcePort),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, attribute)| *attribute)
    }
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Client instance id.
    pub instance_id: Uuid,
    /// Client id; none if the request has none.
    pub client_id: Option<&'a str>,
    /// Name and version of the client library, if the client has reported them.
    pub software: Option<(&'a str, &'a str)>,
    /// Address and port of the client.
    pub source: SocketAddr,
}

impl<'a> Identity<'a> {
    fn attribute(&self, attribute: Attribute) -> Option<Cow<'a, str>> {
        Some(match attribute {
            Attribute::InstanceId => id_text(self.instance_id.to_bytes()).into(),
            Attribute::ClientId => self.client_id?.into(),
            Attribute::SoftwareName => self.software?.0.into(),
            Attribute::SoftwareVersion => self.software?.1.into(),
            Attribute::SourceAddress => address_text(self.source.ip()).into(),
            Attribute::SourcePort => self.source.port().to_string().into(),
        })
    }
}

/// The address as Java prints it: an IPv6 address has all of its groups.
fn address_text(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|group| format!("{group:x}")).join(":"),
    }
}

/// The reason why a pattern cannot be used.
#[derive(Debug, Error)]
pub enum PatternError {
    /// The attribute does not exist.
    #[error("{0} is not an attribute of a client")]
    Attribute(String),
    /// The expression is not valid, is too large, or uses look-around or backreferences.
    #[error("{0}")]
    Expression(String),
}

/// An attribute, and the expression that its whole value has to match.
#[derive(Clone, Debug)]
pub struct MatchPattern {
    attribute: Attribute,
    expression: Regex,
}

impl MatchPattern {
    /// The pattern of these two parts.
    ///
    /// # Errors
    /// One of them is not valid.
    pub fn new(attribute: &str, expression: &str) -> Result<Self, PatternError> {
        let Some(attribute) = Attribute::named(attribute) else {
            return Err(PatternError::Attribute(attribute.to_owned()));
        };
        // Parsed separately first: an unmatched parenthesis must not close one outside.
        if let Err(error) = regex_syntax::parse(expression) {
            let reason = match error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                other => other.to_string(),
            };
            return Err(PatternError::Expression(reason));
        }
        let built = RegexBuilder::new(&format!(r"\A(?:{expression})\z"))
            .size_limit(EXPRESSION_BYTES_MAX)
            .dfa_size_limit(EXPRESSION_BYTES_MAX)
            .build();
        match built {
            Ok(expression) => Ok(Self { attribute, expression }),
            Err(error) => Err(PatternError::Expression(error.to_string())),
        }
    }

    fn matches(&self, client: &Identity<'_>) -> bool {
        client.attribute(self.attribute).is_some_and(|value| self.expression.is_match(&value))
    }
}

/// One subscription.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Name of the subscription.
    pub name: String,
    /// Prefixes of the names of its metrics.
    pub metrics: Vec<String>,
    /// Interval between two pushes, in milliseconds.
    pub interval_ms: i32,
    /// Conditions that a client has to fulfil. Of several for the same attribute the last one
    /// counts, as in Kafka.
    pub patterns: Vec<MatchPattern>,
}

impl Subscription {
    fn matches(&self, client: &Identity<'_>) -> bool {
        let counts = |at: usize, pattern: &MatchPattern| {
            !self.patterns[at + 1..].iter().any(|later| later.attribute == pattern.attribute)
        };
        let mut patterns = self.patterns.iter().enumerate();
        patterns.all(|(at, pattern)| !counts(at, pattern) || pattern.matches(client))
    }
}

/// All subscriptions.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Subscriptions, in the order in which Kafka iterates over them.
    all: Vec<Subscription>,
}

impl Subscriptions {
    /// The table of these subscriptions.
    pub fn new(all: Vec<Subscription>) -> Self {
        let buckets = buckets_of(all.len());
        let mut all = all;
        all.sort_by_key(|one| bucket(&one.name, buckets));
        Self { all }
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The metrics of all subscriptions that match the client.
    pub fn requested_of(&self, client: &Identity<'_>) -> Requested {
        let mut requested = Requested { metrics: Vec::new(), interval_ms: INTERVAL_MS_DEFAULT };
        let mut is_all = false;
        for subscription in self.all.iter().filter(|one| one.matches(client)) {
            is_all |= subscription.metrics.iter().any(|metric| metric == ALL_METRICS);
            requested.metrics.extend(in_hash_order(&subscription.metrics));
            requested.interval_ms = requested.interval_ms.min(subscription.interval_ms);
        }
        requested.metrics =
            if is_all { vec![ALL_METRICS.to_owned()] } else { in_hash_order(&requested.metrics) };
        requested
    }
}

/// Metrics that a client is to push.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Requested {
    /// Prefixes of their names, in the order of Kafka's response; empty for none, `*` for all.
    pub metrics: Vec<String>,
    /// Interval between two pushes, in milliseconds.
    pub interval_ms: i32,
}

impl Requested {
    /// Kafka's number of this set for the client. A client that moves between Levada and Kafka
    /// keeps its subscription.
    pub fn subscription_id(&self, instance_id: Uuid) -> i32 {
        let text = format!("[{}]{}", self.metrics.join(", "), self.interval_ms);
        let checksum = crc_fast::crc32_iscsi(text.as_bytes());
        let [high, low] = halves(instance_id);
        let folded = high ^ low;
        let hash = (folded >> 32) as u32 ^ folded as u32;
        (checksum ^ hash) as i32
    }
}

fn halves(id: Uuid) -> [u64; 2] {
    let bits = u128::from_be_bytes(id.to_bytes());
    [(bits >> 64) as u64, bits as u64]
}

/// The texts without repetitions, in the iteration order of Java's hash set: by bucket, and within
/// a bucket in the order of insertion.
fn in_hash_order(added: &[String]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in added {
        if !texts.contains(text) {
            texts.push(text.clone());
        }
    }
    let buckets = buckets_of(texts.len());
    texts.sort_by_key(|text| bucket(text, buckets));
    texts
}

/// Number of buckets of a table of this size in Java.
fn buckets_of(size: usize) -> u32 {
    let mut buckets = 16;
    while size as u64 * 4 > u64::from(buckets) * 3 {
        buckets *= 2;
    }
    buckets
}

fn bucket(text: &str, buckets: u32) -> u32 {
    let hash =
        text.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    (hash ^ (hash >> 16)) & (buckets - 1)
}

#[cfg(test)]
mod tests;
