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
    #[error("it is not a signed JSON Web Token")]
    Malformed,
    #[error("its algorithm {name:?} is not accepted")]
    Algorithm { name: String },
    #[error("its header has an unsupported critical extension (crit)")]
    Critical,
    #[error("no known key matches its key id")]
    UnknownKey,
    #[error("its signature is not valid")]
    Signature,
    #[error("its claim {claim} is missing or has the wrong type")]
    Claim { claim: String },
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    Early,
    #[error("its audience (aud) is not accepted")]
    Audience,
    #[error("its issuer (iss) is not accepted")]
    Issuer,
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
    let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
    let (header, claims) = (object(header)?, object(claims)?);
    let signature = BASE64.decode(signature).map_err(|_| JwtError::Malformed)?;
    let text = |name: &str| header.get(name).and_then(Value::as_str);
    let named = text("alg").unwrap_or_default();
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == named);
    let algorithm = algorithm.ok_or_else(|| JwtError::Algorithm { name: named.to_owned() })?;
    if header.contains_key("crit") {
        return Err(JwtError::Critical);
    }
    match keys.has_signed((algorithm, text("kid")), signed.as_bytes(), &signature) {
        Ok(true) => check(&claims, config, now_ms),
        Ok(false) => Err(JwtError::Signature),
        Err(UnknownKey) => Err(JwtError::UnknownKey),
    }
}

fn object(part: &str) -> Result<Map<String, Value>, JwtError> {
    let bytes = BASE64.decode(part).map_err(|_| JwtError::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| JwtError::Malformed)
}

fn check(claims: &Map<String, Value>, config: &OauthConfig, now_ms: i64) -> Result<Token, JwtError> {
    let missing = |claim: &str| JwtError::Claim { claim: claim.to_owned() };
    let expires_ms = time(claims, "exp")?.ok_or_else(|| missing("exp"))?;
    time(claims, "iat")?.ok_or_else(|| missing("iat"))?;
    if now_ms.saturating_sub(config.clock_skew_ms) >= expires_ms {
        return Err(JwtError::Expired);
    }
    if time(claims, "nbf")?.is_some_and(|from_ms| now_ms.saturating_add(config.clock_skew_ms) < from_ms) {
        return Err(JwtError::Early);
    }
    check_audience(claims, config)?;
    let issuer = claims.get("iss").and_then(Value::as_str);
    if config.issuer.is_some() && issuer != config.issuer.as_deref() {
        return Err(JwtError::Issuer);
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
        None => return Err(JwtError::Audience),
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        Some(_) => return Err(JwtError::Claim { claim: "aud".to_owned() }),
    };
    if audiences.iter().any(|audience| config.audiences.iter().any(|expected| expected == audience)) {
        Ok(())
    } else {
        Err(JwtError::Audience)
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
