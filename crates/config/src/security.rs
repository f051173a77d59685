//! Security configuration: SASL of each listener, and access control.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use levada_security::authorizer::AuthorizerConfig;
use levada_security::jaas::Jaas;
use levada_security::oauth::{KeySource, OauthConfig};
use levada_security::sasl::{Mechanism, Offer, SaslConfig};
use levada_security::scram::same_secret;

use super::prefix::prefixed;
use super::words::words;
use super::{HIDDEN, Listener, Settings};

const PLAIN_MODULE: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";

/// The secret key of delegation tokens.
const TOKEN_KEY: &str = "delegation.token.secret.key";

const TOKEN_LIFETIME: &str = "delegation.token.max.lifetime.ms";
const TOKEN_EXPIRY: &str = "delegation.token.expiry.time.ms";
const TOKEN_CHECK: &str = "delegation.token.expiry.check.interval.ms";

const OAUTH_MODULE: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";

/// A text that does not print.
#[derive(Clone, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// True if `shown` is the secret.
    pub fn is(&self, shown: &str) -> bool {
        same_secret(self.0.as_bytes(), shown.as_bytes())
    }

    /// The text, which must not be printed.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// SASL of all listeners, and the delay after failed authentications.
#[derive(Clone, Debug)]
pub struct SecurityConfig {
    /// SASL settings by the name of the listener, in capitals; listeners without SASL have no
    /// entry.
    pub sasl: BTreeMap<String, Arc<SaslConfig>>,
    /// `connection.failed.authentication.delay.ms`.
    pub failed_delay: Duration,
    /// `sasl.server.max.receive.size`.
    pub frame_bytes_max: u32,
    /// `sasl.oauthbearer.jwks.endpoint.*`: when keys are reloaded.
    pub signing_keys: SigningKeyTimes,
    /// Access control; without it every client may do everything.
    pub authorizer: Option<AuthorizerConfig>,
    /// `delegation.token.secret.key`; without it delegation tokens are disabled.
    pub token_secret_key: Option<Secret>,
    /// Lifetimes of delegation tokens.
    pub token_times: TokenTimes,
}

/// Lifetimes of the delegation tokens of a broker without a cluster.
#[derive(Clone, Copy, Debug)]
pub struct TokenTimes {
    /// `delegation.token.max.lifetime.ms`.
    pub max_lifetime_ms: i64,
    /// `delegation.token.expiry.time.ms`.
    pub expiry_ms: i64,
    /// `delegation.token.expiry.check.interval.ms`.
    pub check_interval_ms: i64,
}

/// The schedule for reloading the signing keys of tokens.
#[derive(Clone, Copy, Debug)]
pub struct SigningKeyTimes {
    /// Pause after a successful load, ms.
    pub refresh_ms: i64,
    /// Pause after a first failure, ms.
    pub retry_ms: i64,
    /// Longest pause after repeated failures, and after a token named a missing key, ms.
    pub retry_ms_max: i64,
}

/// A problem with one key, which may be that of a listener.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SecurityProblem {
    pub(super) key: String,
    pub(super) must_be: String,
}

type Checked<T> = Result<T, SecurityProblem>;

impl SecurityConfig {
    pub(super) fn load(settings: &Settings, listeners: &[Listener]) -> Checked<Self> {
        let number = |key: &str| settings.text(key).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        let long =
            |key: &str| settings.text(key).and_then(|text| text.parse::<i64>().ok()).unwrap_or(i64::MAX);
        let mut sasl = BTreeMap::new();
        for listener in listeners.iter().filter(|listener| listener.protocol.has_sasl()) {
            sasl.insert(listener.name.clone(), Arc::new(of_listener(settings, &listener.name)?));
        }
        Ok(Self {
            sasl,
            failed_delay: Duration::from_millis(number("connection.failed.authentication.delay.ms").into()),
            frame_bytes_max: number("sasl.server.max.receive.size"),
            signing_keys: SigningKeyTimes {
                refresh_ms: long("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
                retry_ms: long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
                retry_ms_max: long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
            },
            authorizer: authorizer(settings)?,
            token_secret_key: settings.text(TOKEN_KEY).filter(|key| !key.is_empty()).map(Secret::from),
            token_times: TokenTimes {
                max_lifetime_ms: long(TOKEN_LIFETIME),
                expiry_ms: long(TOKEN_EXPIRY),
                check_interval_ms: long(TOKEN_CHECK),
            },
        })
    }
}

fn of_listener(settings: &Settings, listener: &str) -> Checked<SaslConfig> {
    const MECHANISMS: &str = "sasl.enabled.mechanisms";
    let named = settings.listener_text(listener, MECHANISMS).unwrap_or_default();
    let served = Mechanism::ALL.map(Mechanism::name).join(", ");
    let key = settings.listener_key(listener, MECHANISMS);
    let wrong = || SecurityProblem {
        key: key.clone(),
        must_be: format!("a list of {served} for listener {listener}"),
    };
    let mut config =
        SaslConfig { offers: Vec::new(), passwords: BTreeMap::new(), tokens: OauthConfig::default() };
    for name in words(named) {
        let mechanism = Mechanism::from_name(name).ok_or_else(wrong)?;
        match mechanism {
            Mechanism::Plain => config.passwords = passwords(settings, listener)?,
            Mechanism::OauthBearer => config.tokens = tokens(settings, listener)?,
            Mechanism::Scram(_) => {}
        }
        let session_ms_max = of_mechanism(settings, (listener, mechanism), "connections.max.reauth.ms");
        let session_ms_max = session_ms_max.and_then(|text| text.parse().ok()).filter(|ms: &i64| *ms > 0);
        config.offers.push(Offer { mechanism, session_ms_max });
    }
    if config.offers.is_empty() { Err(wrong()) } else { Ok(config) }
}

/// The value for one mechanism of a listener, otherwise for the listener, otherwise for all
/// listeners.
pub(super) fn of_mechanism<'a>(
    settings: &'a Settings,
    (listener, mechanism): (&str, Mechanism),
    key: &str,
) -> Option<&'a str> {
    settings.text(&key_of_mechanism(settings, (listener, mechanism), key))
}

/// The name of the key from which [`of_mechanism`] takes its value.
pub(super) fn key_of_mechanism(
    settings: &Settings,
    (listener, mechanism): (&str, Mechanism),
    key: &str,
) -> String {
    let own = prefixed(listener, &for_mechanism(mechanism, key));
    if settings.text(&own).is_some() { own } else { settings.listener_key(listener, key) }
}

fn for_mechanism(mechanism: Mechanism, key: &str) -> String {
    format!("{}.{key}", mechanism.name().to_lowercase())
}

fn passwords(settings: &Settings, listener: &str) -> Checked<BTreeMap<String, String>> {
    let key = for_mechanism(Mechanism::Plain, "sasl.jaas.config");
    let wrong = |must_be: String| SecurityProblem { key: prefixed(listener, &key), must_be };
    let example = format!("{PLAIN_MODULE} required user_alice=\"…\";");
    let text =
        settings.own_listener_text(listener, &key).ok_or_else(|| wrong(format!("set, such as {example}")))?;
    let jaas = Jaas::parse(text).map_err(|error| wrong(format!("like {example}: {error}")))?;
    if jaas.module != PLAIN_MODULE {
        return Err(wrong(format!("like {example}: no other login module is served")));
    }
    Ok(jaas.plain_users())
}

fn tokens(settings: &Settings, listener: &str) -> Checked<OauthConfig> {
    const URL: &str = "sasl.oauthbearer.jwks.endpoint.url";
    let whose = (listener, Mechanism::OauthBearer);
    let text = |key| of_mechanism(settings, whose, key).unwrap_or_default();
    let url = text(URL);
    if !is_key_url(url) {
        let must_be =
            "a URL with the keys that tokens are signed with: file:/…, https://…, or http://… of this machine"
                .to_owned();
        return Err(SecurityProblem { key: key_of_mechanism(settings, whose, URL), must_be });
    }
    let key = for_mechanism(Mechanism::OauthBearer, "sasl.jaas.config");
    let login = settings.own_listener_text(listener, &key).map(Jaas::parse).transpose();
    let login = login.map_err(|error| SecurityProblem {
        key: prefixed(listener, &key),
        must_be: format!("like {OAUTH_MODULE} required ssl.truststore.location=\"…\";: {error}"),
    })?;
    let issuer = text("sasl.oauthbearer.expected.issuer");
    Ok(OauthConfig {
        keys: KeySource { url: url.to_owned(), login },
        clock_skew_ms: text("sasl.oauthbearer.clock.skew.seconds").parse::<i64>().unwrap_or(0) * 1000,
        audiences: words(text("sasl.oauthbearer.expected.audience")).map(str::to_owned).collect(),
        issuer: (!issuer.is_empty()).then(|| issuer.to_owned()),
        scope_claim: text("sasl.oauthbearer.scope.claim.name").to_owned(),
        sub_claim: text("sasl.oauthbearer.sub.claim.name").to_owned(),
    })
}

/// True if signing keys may be read from this URL: a file, HTTPS, or HTTP from this machine. An
/// attacker who can change keys in transit can sign tokens. The parser is that of the HTTP client.
/// A user name before the host is refused, because it can look like an address.
fn is_key_url(url: &str) -> bool {
    if url.starts_with("file:/") {
        return true;
    }
    let Ok(url) = url.parse::<Uri>() else { return false };
    let Some(authority) = url.authority().filter(|authority| !authority.as_str().contains('@')) else {
        return false;
    };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match url.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => host == "localhost" || address.is_ok_and(|address| address.is_loopback()),
        _ => false,
    }
}

fn authorizer(settings: &Settings) -> Checked<Option<AuthorizerConfig>> {
    if settings.text("authorizer.class.name").is_none_or(str::is_empty) {
        return Ok(None);
    }
    let users = settings.text("super.users").unwrap_or_default();
    let users: BTreeSet<String> =
        users.split(';').map(str::trim).filter(|user| !user.is_empty()).map(str::to_owned).collect();
    let is_principal =
        |user: &String| user.split_once(':').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
    if !users.iter().all(is_principal) {
        let must_be = "principals separated by semicolons, such as User:alice;User:bob".to_owned();
        return Err(SecurityProblem { key: "super.users".to_owned(), must_be });
    }
    let allow_if_no_acl = settings.text("allow.everyone.if.no.acl.found") == Some("true");
    Ok(Some(AuthorizerConfig { super_users: users, allow_if_no_acl }))
}
