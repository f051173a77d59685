//! Kafka's client properties: the names that a [`Login`](crate::Login) or the client of a schema
//! registry reads, misspelt names, and the values of protocol and mechanism.
//!
//! Catalogue: the names of Kafka's client properties.

use levada_security::sasl::Mechanism;

/// The client properties that a login or the client of a schema registry reads, and true for those
/// that may hold a secret.
const PROPERTIES: [(&str, bool); 33] = [
    ("basic.auth.credentials.source", false),
    ("basic.auth.user.info", true),
    ("sasl.jaas.config", true),
    ("sasl.mechanism", false),
    ("sasl.oauthbearer.token.endpoint.url", false),
    ("schema.registry.basic.auth.credentials.source", false),
    ("schema.registry.basic.auth.user.info", true),
    ("schema.registry.ssl.endpoint.identification.algorithm", false),
    ("schema.registry.ssl.key.password", true),
    ("schema.registry.ssl.keystore.certificate.chain", false),
    ("schema.registry.ssl.keystore.key", true),
    ("schema.registry.ssl.keystore.location", false),
    ("schema.registry.ssl.keystore.password", true),
    ("schema.registry.ssl.keystore.type", false),
    ("schema.registry.ssl.truststore.certificates", false),
    ("schema.registry.ssl.truststore.location", false),
    ("schema.registry.ssl.truststore.password", true),
    ("schema.registry.ssl.truststore.type", false),
    ("schema.registry.url", true),
    ("security.protocol", false),
    ("ssl.cipher.suites", false),
    ("ssl.enabled.protocols", false),
    ("ssl.endpoint.identification.algorithm", false),
    ("ssl.key.password", true),
    ("ssl.keystore.certificate.chain", false),
    ("ssl.keystore.key", true),
    ("ssl.keystore.location", false),
    ("ssl.keystore.password", true),
    ("ssl.keystore.type", false),
    ("ssl.truststore.certificates", false),
    ("ssl.truststore.location", false),
    ("ssl.truststore.password", true),
    ("ssl.truststore.type", false),
];

/// Other properties of Kafka's admin client. A file for Kafka's tools may have them; they have no
/// effect here.
const OMITTED: [&str; 59] = [
    "auto.include.jmx.reporter",
    "bootstrap.controllers",
    "bootstrap.servers",
    "client.dns.lookup",
    "client.id",
    "config.providers",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "enable.metrics.push",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.client.callback.handler.class",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "security.providers",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
];

/// Maximum number of letters by which a misspelt name differs from the suggested one.
const DISTANCE_MAX: usize = 3;

/// The read properties, for messages.
pub const READ: &str = "security.protocol, sasl.*, ssl.*, basic.auth.* and schema.registry.*";

/// A name in a file of client properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A login or the client of a schema registry reads it.
    Read,
    /// Kafka's admin client reads it, and a login does not.
    Omitted,
    /// A misspelt name of this property.
    Misspelt(&'static str),
    /// The name is no client property; the most similar name, if there is one.
    Unknown(Option<&'static str>),
}

impl Name {
    /// The kind of this name.
    #[must_use]
    pub fn of(key: &str) -> Self {
        if PROPERTIES.iter().any(|(known, _)| *known == key) {
            return Self::Read;
        }
        if OMITTED.contains(&key) {
            return Self::Omitted;
        }
        let lower = key.to_lowercase().replace(['_', '-'], ".");
        let distances =
            PROPERTIES.iter().map(|(known, _)| (strsim::damerau_levenshtein(&lower, known), *known));
        match distances.min() {
            Some((distance, meant)) if distance <= DISTANCE_MAX => Self::Misspelt(meant),
            nearest => Self::Unknown(
                nearest.filter(|(distance, known)| distance * 3 <= known.len()).map(|(_, known)| known),
            ),
        }
    }
}

/// True for a client property whose value is not shown.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    PROPERTIES.iter().any(|(known, secret)| *known == key && *secret)
}

/// Checks the names of a file: fails if the name of a property of the login is misspelt, since the
/// connection would not have the security that the file asks for. Returns a warning about names
/// without an effect, if there are any.
///
/// # Errors
/// The first misspelt name, with `source`, the place of the properties.
pub fn check_names<'a>(source: &str, keys: impl Iterator<Item = &'a str>) -> Result<Option<String>, String> {
    let mut unknown = Vec::new();
    for key in keys {
        match Name::of(key) {
            Name::Read | Name::Omitted => {}
            Name::Misspelt(meant) => {
                return Err(format!("{source}: unknown client property {key}; did you mean {meant}?"));
            }
            Name::Unknown(nearest) => unknown.push((key, nearest)),
        }
    }
    let shown = |(key, nearest): &(&str, Option<&str>)| match nearest {
        Some(nearest) => format!("{key} (the nearest is {nearest})"),
        None => (*key).to_owned(),
    };
    let all: Vec<String> = unknown.iter().map(shown).collect();
    Ok((!all.is_empty())
        .then(|| format!("{source}: without effect: {}; levada reads {READ}", all.join(", "))))
}

/// TLS and SASL of a `security.protocol`; neither without one.
///
/// # Errors
/// The protocol does not exist.
pub fn protocol(name: Option<&str>) -> Result<(bool, bool), &'static str> {
    match name.unwrap_or("PLAINTEXT").to_uppercase().as_str() {
        "PLAINTEXT" => Ok((false, false)),
        "SSL" => Ok((true, false)),
        "SASL_PLAINTEXT" => Ok((false, true)),
        "SASL_SSL" => Ok((true, true)),
        _ => Err("security.protocol must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    }
}

/// The mechanism of a `sasl.mechanism`.
///
/// # Errors
/// The mechanism does not exist, or Levada does not support it.
pub fn mechanism(name: Option<&str>) -> Result<Mechanism, &'static str> {
    name.and_then(Mechanism::from_name)
        .ok_or("sasl.mechanism must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
}

#[cfg(test)]
mod tests;
