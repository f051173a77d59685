//! Validation of signed tokens (RFC 7519): signature, subject and expiry.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Map, Value};

use super::OauthConfig;
use super::jwks::{Jwks, UnknownKey};

/// A verified token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Subject of the token.
    pub user: String,
    /// Expiry, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// The reason why a token is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum JwtError {
    #[error("it is not a signed JSON Web Token: its {part} is missing or malformed")]
    Malformed { part: &'static str },
    #[error("its algorithm {name:?} is not accepted")]
    Algorithm { name: String },
    #[error("its header requires critical extensions (crit), and none is supported: {names}")]
    Critical { names: String },
    #[error(
        "no key of sasl.oauthbearer.jwks.endpoint.url fits its algorithm {algorithm} and its key id ({})",
        shown(id)
    )]
    UnknownKey { algorithm: &'static str, id: Option<String> },
    #[error("its signature is not valid (algorithm {algorithm}, key id {})", shown(id))]
    Signature { algorithm: &'static str, id: Option<String> },
    #[error("its claim {claim} is missing or has the wrong type")]
    Claim { claim: String },
    #[error("it expired {} s ago, and sasl.oauthbearer.clock.skew.seconds is {}", .ago_ms / 1000, .skew_ms / 1000)]
    Expired { ago_ms: i64, skew_ms: i64 },
    #[error(
        "it becomes valid in {} s, and sasl.oauthbearer.clock.skew.seconds is {}: compare the clocks",
        .early_ms / 1000,
        .skew_ms / 1000
    )]
    Early { early_ms: i64, skew_ms: i64 },
    #[error("its audiences (aud) {found:?} have none of sasl.oauthbearer.expected.audience ({expected:?})")]
    Audience { found: Vec<String>, expected: Vec<String> },
    #[error("its issuer (iss) is {}, but sasl.oauthbearer.expected.issuer is {expected:?}", shown(found))]
    Issuer { found: Option<String>, expected: String },
}

/// Text of a field of a token, or of its absence.
fn shown(field: &Option<String>) -> String {
    field.as_ref().map_or_else(|| "missing".to_owned(), |value| format!("{value:?}"))
}

/// Signature algorithms of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
}

impl Algorithm {
    const ALL: [Self; 8] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
        }
    }
}

/// Checks signature and claims.
///
/// # Errors
/// The token is refused.
pub fn verify(token: &str, config: &OauthConfig, (keys, now_ms): (&Jwks, i64)) -> Result<Token, JwtError> {
    let malformed = |part| JwtError::Malformed { part };
    let (signed, signature) = token.rsplit_once('.').ok_or(malformed("signature"))?;
    let (header, claims) = signed.split_once('.').ok_or(malformed("signature"))?;
    let header = object(header).ok_or(malformed("header"))?;
    let claims = object(claims).ok_or(malformed("part with the claims"))?;
    let signature = BASE64.decode(signature).map_err(|_| malformed("signature"))?;
    let text = |name: &str| header.get(name).and_then(Value::as_str);
    let named = text("alg").unwrap_or_default();
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == named);
    let algorithm = algorithm.ok_or_else(|| JwtError::Algorithm { name: named.to_owned() })?;
    if let Some(names) = header.get("crit") {
        return Err(JwtError::Critical { names: names.to_string() });
    }
    let id = || text("kid").map(str::to_owned);
    match keys.has_signed((algorithm, text("kid")), signed.as_bytes(), &signature) {
        Ok(true) => check(&claims, config, now_ms),
        Ok(false) => Err(JwtError::Signature { algorithm: algorithm.name(), id: id() }),
        Err(UnknownKey) => Err(JwtError::UnknownKey { algorithm: algorithm.name(), id: id() }),
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&BASE64.decode(part).ok()?).ok()
}

fn check(claims: &Map<String, Value>, config: &OauthConfig, now_ms: i64) -> Result<Token, JwtError> {
    let missing = |claim: &str| JwtError::Claim { claim: claim.to_owned() };
    let expires_ms = time(claims, "exp")?.ok_or_else(|| missing("exp"))?;
    time(claims, "iat")?.ok_or_else(|| missing("iat"))?;
    let skew_ms = config.clock_skew_ms;
    if now_ms.saturating_sub(skew_ms) >= expires_ms {
        return Err(JwtError::Expired { ago_ms: now_ms.saturating_sub(expires_ms), skew_ms });
    }
    if let Some(from_ms) = time(claims, "nbf")?
        && now_ms.saturating_add(skew_ms) < from_ms
    {
        return Err(JwtError::Early { early_ms: from_ms.saturating_sub(now_ms), skew_ms });
    }
    check_audience(claims, config)?;
    let issuer = claims.get("iss").and_then(Value::as_str);
    if let Some(expected) = &config.issuer
        && issuer != Some(expected)
    {
        return Err(JwtError::Issuer { found: issuer.map(str::to_owned), expected: expected.clone() });
    }
    check_scopes(claims, &config.scope_claim)?;
    let user = claims.get(&config.sub_claim).and_then(Value::as_str).map(str::trim);
    let user = user.filter(|user| !user.is_empty()).ok_or_else(|| missing(&config.sub_claim))?;
    Ok(Token { user: user.to_owned(), expires_ms })
}

/// A time in seconds, whole or not, in milliseconds.
fn time(claims: &Map<String, Value>, claim: &str) -> Result<Option<i64>, JwtError> {
    let Some(value) = claims.get(claim) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    let seconds = seconds.ok_or_else(|| JwtError::Claim { claim: claim.to_owned() })?;
    // A float beyond the range becomes its end.
    Ok(Some((seconds * 1000.0) as i64))
}

/// A token that names an audience must name this broker, even if no audience is configured.
fn check_audience(claims: &Map<String, Value>, config: &OauthConfig) -> Result<(), JwtError> {
    let audiences: Vec<&str> = match claims.get("aud") {
        None if config.audiences.is_empty() => return Ok(()),
        None => Vec::new(),
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        Some(_) => return Err(JwtError::Claim { claim: "aud".to_owned() }),
    };
    if audiences.iter().any(|audience| config.audiences.iter().any(|expected| expected == audience)) {
        Ok(())
    } else {
        let found = audiences.into_iter().map(str::to_owned).collect();
        Err(JwtError::Audience { found, expected: config.audiences.clone() })
    }
}

/// Scopes need not be there, but if they are, each is a word and there once.
fn check_scopes(claims: &Map<String, Value>, claim: &str) -> Result<(), JwtError> {
    let scopes: Vec<Option<&str>> = match claims.get(claim) {
        Some(Value::String(one)) => vec![Some(one)],
        Some(Value::Array(all)) => all.iter().map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut seen = BTreeSet::new();
    let fine = |scope: &Option<&str>| {
        scope.map(str::trim).is_some_and(|scope| !scope.is_empty() && seen.insert(scope.to_owned()))
    };
    if scopes.iter().all(fine) { Ok(()) } else { Err(JwtError::Claim { claim: claim.to_owned() }) }
}
