//! Changes of delegation tokens, and the removal of expired ones. The controllers of a cluster do
//! this themselves.

use std::sync::Arc;

use levada_metadata::controller::{
    EXPIRED_TOKENS_MAX, NewToken, TokenChange, TokenLifetimes, create_token, expire_token,
    remove_expired_tokens, renew_token,
};
use levada_metadata::records::DelegationTokenRecord;
use levada_metadata::uuid;
use levada_process::clock::now_ms;
use levada_wire::error_code::Failure;
use parking_lot::Mutex;

use crate::controller::{Backend, Controller};

/// Schedule of the removal of expired tokens.
pub(super) struct TokenSweep {
    /// Time of the next removal, on the monotonic clock; none before the first.
    next_ms: Mutex<Option<i64>>,
    /// Start of the process, on the wall clock.
    started_ms: i64,
}

impl TokenSweep {
    /// The schedule of a process that starts now.
    pub(super) fn new() -> Self {
        Self { next_ms: Mutex::default(), started_ms: now_ms() }
    }

    /// The time at which tokens that are to be removed now have expired; none if no removal is due.
    /// As in Kafka, the first interval begins with the process; what expired before is
    /// removed in the first round, also from a broker that is restarted often.
    fn due(&self, steady_ms: i64, now_ms: i64, interval_ms: i64) -> Option<i64> {
        let mut next_ms = self.next_ms.lock();
        let expired_ms = match *next_ms {
            Some(next_ms) if steady_ms < next_ms => return None,
            Some(_) => now_ms,
            None => self.started_ms,
        };
        *next_ms = Some(steady_ms.saturating_add(interval_ms));
        Some(expired_ms)
    }
}

impl Controller {
    /// Creates a delegation token.
    pub(crate) async fn create_token(
        self: &Arc<Self>,
        new: NewToken,
    ) -> Result<DelegationTokenRecord, Failure> {
        self.off_shard(move |controller| {
            let times = (controller.token_lifetimes(), now_ms());
            let embedded = controller.embedded()?;
            embedded.refuse_growth()?;
            embedded.decide(|image| create_token(image, &new, uuid::text(uuid::random()), times))
        })
        .await
    }

    /// Postpones the expiry of a token, and returns the new time.
    pub(crate) async fn renew_token(self: &Arc<Self>, change: TokenChange) -> Result<i64, Failure> {
        self.off_shard(move |controller| {
            let times = (controller.token_lifetimes(), now_ms());
            controller.embedded()?.decide(|image| renew_token(image, &change, times))
        })
        .await
    }

    /// Sets the expiry of a token, or removes it after a negative period, and returns the time.
    pub(crate) async fn expire_token(self: &Arc<Self>, change: TokenChange) -> Result<i64, Failure> {
        self.off_shard(move |controller| {
            controller.embedded()?.decide(|image| expire_token(image, &change, now_ms()))
        })
        .await
    }

    fn token_lifetimes(&self) -> TokenLifetimes {
        let times = self.config.load().security.token_times;
        TokenLifetimes { max_ms: times.max_lifetime_ms, renewal_ms: times.expiry_ms }
    }

    /// Removes expired tokens if that is due. The times are of the monotonic clock and of the wall
    /// clock. Blocks.
    pub(crate) fn sweep_tokens(&self, steady_ms: i64, now_ms: i64) {
        let Backend::Embedded(embedded) = &self.backend else { return };
        let interval_ms = self.config.load().security.token_times.check_interval_ms;
        let Some(expired_ms) = self.token_sweep.due(steady_ms, now_ms, interval_ms) else { return };
        let mut left = self.metadata.image().tokens().len();
        while left > 0 {
            // The failure is logged.
            let Ok(removed) = embedded.change(|image| remove_expired_tokens(image, expired_ms)) else {
                return;
            };
            for token in &removed {
                tracing::info!(token = token.token_id, owner = token.owner, "delegation token expired");
            }
            left = if removed.len() < EXPIRED_TOKENS_MAX { 0 } else { left.saturating_sub(removed.len()) };
        }
    }
}
