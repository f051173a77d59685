//! Creating, renewing, expiring and removing delegation tokens (KIP-48). The HMAC of a token is not
//! part of the metadata: the caller finds the id that belongs to an HMAC.
//!
//! Each token counts against the memory of its requester and of all tokens; Kafka has no bound.

use super::{Decision, Reason, Refusal};
use crate::features::METADATA_VERSION;
use crate::image::Image;
use crate::records::{DelegationTokenRecord, RemoveDelegationTokenRecord, TOKENS};

/// Maximum memory of the tokens of one requester: about 6 000 tokens with short names.
const REQUESTER_BYTES_MAX: usize = 2 << 20;

/// Maximum memory of all tokens.
const ALL_BYTES_MAX: usize = 16 << 20;

/// Memory of a token without its principals, rounded up.
const TOKEN_BYTES: usize = 256;

/// Memory of a renewer without its name.
const RENEWER_BYTES: usize = 24;

/// Maximum number of expired tokens that one change removes, as in Kafka.
pub const EXPIRED_TOKENS_MAX: usize = 1_000;

/// Lifetimes of tokens by the configuration, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLifetimes {
    /// Longest lifetime with all renewals.
    pub max_ms: i64,
    /// Longest time until a token expires unless it is renewed.
    pub renewal_ms: i64,
}

/// A requested token. Principals are `type:name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewToken {
    /// Principal as which the token authenticates.
    pub owner: String,
    /// Principal that requests the token.
    pub requester: String,
    /// Principals that may renew the token, besides its owner.
    pub renewers: Vec<String>,
    /// Longest lifetime in milliseconds. Zero or less means the longest that the configuration
    /// allows.
    pub max_lifetime_ms: i64,
}

/// A change of the expiry of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenChange {
    /// Id of the token; none if no token has the HMAC of the request.
    pub id: Option<String>,
    /// Principal that requests the change.
    pub principal: String,
    /// Time until the expiry, in milliseconds.
    pub period_ms: i64,
}

/// Creates a token with this id.
///
/// # Errors
/// The `metadata.version` has no tokens, or the tokens of the requester, or all tokens, would take
/// too much memory.
pub fn create_token(
    image: &Image,
    new: &NewToken,
    id: String,
    (lifetimes, now_ms): (TokenLifetimes, i64),
) -> Result<Decision<DelegationTokenRecord>, Refusal> {
    check_level(image)?;
    let max_timestamp = now_ms.saturating_add(shorter(lifetimes.max_ms, new.max_lifetime_ms));
    let token = DelegationTokenRecord {
        owner: new.owner.clone(),
        requester: new.requester.clone(),
        renewers: new.renewers.clone(),
        issue_timestamp: now_ms,
        max_timestamp,
        expiration_timestamp: max_timestamp.min(now_ms.saturating_add(lifetimes.renewal_ms)),
        token_id: id,
    };
    check_memory(image, &token)?;
    Ok(Decision { records: vec![token.clone().into()], outcome: token })
}

/// Postpones the expiry of a token by a period, for its owner or one of its renewers, and returns
/// the new time. A period of zero or less means the longest that the configuration allows.
///
/// # Errors
/// There is no such token, it has expired, or the principal may not renew it.
pub fn renew_token(
    image: &Image,
    change: &TokenChange,
    (lifetimes, now_ms): (TokenLifetimes, i64),
) -> Result<Decision<i64>, Refusal> {
    check_level(image)?;
    let token = find(image, change)?;
    check_alive(token, now_ms)?;
    check_renewer(token, change)?;
    Ok(expiring(token, now_ms.saturating_add(shorter(lifetimes.renewal_ms, change.period_ms))))
}

/// Sets the expiry of a token after a period, for its owner or one of its renewers, and returns the
/// time. A negative period removes the token immediately, even if it has expired.
///
/// # Errors
/// Same as [`renew_token`].
pub fn expire_token(image: &Image, change: &TokenChange, now_ms: i64) -> Result<Decision<i64>, Refusal> {
    check_level(image)?;
    let token = find(image, change)?;
    check_renewer(token, change)?;
    if change.period_ms < 0 {
        return Ok(Decision { records: vec![removal(token).into()], outcome: now_ms });
    }
    check_alive(token, now_ms)?;
    Ok(expiring(token, now_ms.saturating_add(change.period_ms)))
}

/// Removes tokens that have expired, up to a number, and returns them.
pub fn remove_expired_tokens(image: &Image, now_ms: i64) -> Decision<Vec<DelegationTokenRecord>> {
    let expired = image.tokens().values().filter(|token| token.is_expired(now_ms));
    let expired: Vec<DelegationTokenRecord> = expired.take(EXPIRED_TOKENS_MAX).cloned().collect();
    Decision { records: expired.iter().map(|token| removal(token).into()).collect(), outcome: expired }
}

/// The requested time, if there is one and it is within the longest.
fn shorter(longest_ms: i64, requested_ms: i64) -> i64 {
    if requested_ms > 0 { requested_ms.min(longest_ms) } else { longest_ms }
}

fn check_level(image: &Image) -> Result<(), Refusal> {
    if image.features().get(METADATA_VERSION).is_some_and(|level| *level < TOKENS) {
        let text = "The current metadata.version does not support delegation tokens.";
        return Err(Refusal::new(Reason::UnsupportedVersion, text));
    }
    Ok(())
}

fn find<'a>(image: &'a Image, change: &TokenChange) -> Result<&'a DelegationTokenRecord, Refusal> {
    let unknown = || Refusal { reason: Reason::UnknownToken, message: None };
    change.id.as_ref().and_then(|id| image.tokens().get(id)).ok_or_else(unknown)
}

fn check_alive(token: &DelegationTokenRecord, now_ms: i64) -> Result<(), Refusal> {
    if token.is_expired(now_ms) {
        return Err(Refusal { reason: Reason::ExpiredToken, message: None });
    }
    Ok(())
}

fn check_renewer(token: &DelegationTokenRecord, change: &TokenChange) -> Result<(), Refusal> {
    if token.owner == change.principal || token.renewers.contains(&change.principal) {
        return Ok(());
    }
    Err(Refusal { reason: Reason::NotTokensOwner, message: None })
}

/// Sets the expiry of a token within its lifetime.
fn expiring(token: &DelegationTokenRecord, expiry_ms: i64) -> Decision<i64> {
    let expiration_timestamp = expiry_ms.min(token.max_timestamp);
    let record = DelegationTokenRecord { expiration_timestamp, ..token.clone() };
    Decision { records: vec![record.into()], outcome: expiration_timestamp }
}

fn removal(token: &DelegationTokenRecord) -> RemoveDelegationTokenRecord {
    RemoveDelegationTokenRecord { token_id: token.token_id.clone() }
}

fn check_memory(image: &Image, new: &DelegationTokenRecord) -> Result<(), Refusal> {
    let (mut own, mut all) = (0, 0);
    for token in image.tokens().values().chain([new]) {
        let bytes = bytes(token);
        all += bytes;
        own += if token.requester == new.requester { bytes } else { 0 };
    }
    let refuse = |whose: &str, limit: usize| {
        let text = format!(
            "The tokens {whose} take more than {limit} bytes: remove tokens, or name fewer renewers."
        );
        Err(Refusal::new(Reason::PolicyViolation, text))
    };
    if own > REQUESTER_BYTES_MAX {
        return refuse("of one requester", REQUESTER_BYTES_MAX);
    }
    if all > ALL_BYTES_MAX {
        return refuse("of all requesters", ALL_BYTES_MAX);
    }
    Ok(())
}

/// Memory of a token, rounded up.
fn bytes(token: &DelegationTokenRecord) -> usize {
    let renewers: usize = token.renewers.iter().map(|renewer| RENEWER_BYTES + renewer.len()).sum();
    TOKEN_BYTES + token.owner.len() + token.requester.len() + renewers
}

#[cfg(test)]
mod tests;
