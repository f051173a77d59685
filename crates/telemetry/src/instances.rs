//! Client instances: the last requests of each, and the checks of the next one.
//!
//! An instance is made by the first request with its id, and ends with the connection that made it,
//! some time after its last request, or if there are too many. A change of the subscriptions
//! replaces each instance.

use std::hash::RandomState;

use levada_wire::Uuid;
use lru::LruCache;

use crate::subscriptions::Requested;

/// Maximum number of instances, as in Kafka; a new one replaces the instance whose last request is
/// the oldest.
pub const INSTANCES_MAX: usize = 16_384;

/// Shortest time for which an instance without requests is kept, in milliseconds.
const IDLE_MS_MIN: i64 = 60_000;

/// Reason why a request for subscriptions is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GetRefusal {
    /// `THROTTLING_QUOTA_EXCEEDED`: the request arrived before the interval has passed.
    Throttled,
}

/// Reason why a push is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PushRefusal {
    /// `INVALID_REQUEST`: the client has announced that its previous push was the last one.
    Terminated,
    /// `THROTTLING_QUOTA_EXCEEDED`: the push arrived before the interval has passed.
    Throttled,
    /// `UNKNOWN_SUBSCRIPTION_ID`: the subscriptions have changed.
    UnknownSubscription,
    /// `UNSUPPORTED_COMPRESSION_TYPE`
    UnsupportedCompression,
    /// `TELEMETRY_TOO_LARGE`
    TooLarge,
}

/// A request of an instance.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Id of the instance.
    pub instance_id: Uuid,
    /// Number of the subscriptions in force: another one with each change.
    pub version: u64,
    /// Time of the request.
    pub now_ms: i64,
}

/// The fields of a push that are checked.
#[derive(Clone, Copy, Debug)]
pub struct Push {
    /// Subscription that the client pushes for.
    pub subscription_id: i32,
    /// True if it is the client's last push.
    pub terminating: bool,
    /// False if the broker does not know the codec.
    pub is_codec_known: bool,
    /// True if the payload is larger than the broker accepts.
    pub is_too_large: bool,
}

#[derive(Debug)]
struct Instance {
    subscription_id: i32,
    interval_ms: i32,
    version: u64,
    got_ms: Option<i64>,
    pushed_ms: Option<i64>,
    expires_ms: i64,
    terminating: bool,
    /// True if a response allowed the client to request its subscriptions again immediately.
    may_ask: bool,
}

impl Instance {
    /// True if a request for subscriptions is admitted now; it then counts.
    fn admit_get(&mut self, now_ms: i64) -> bool {
        let last = self.got_ms.max(self.pushed_ms);
        let admits = last.is_none_or(|last| now_ms - last >= i64::from(self.interval_ms));
        if admits {
            self.got_ms = Some(now_ms);
        }
        admits
    }

    /// True if a push is admitted now; it then counts. The first one after a request for
    /// subscriptions may be early: clients add random delays.
    fn admit_push(&mut self, now_ms: i64) -> bool {
        let admits = self.got_ms > self.pushed_ms
            || self.pushed_ms.is_none_or(|last| now_ms - last >= i64::from(self.interval_ms));
        if admits {
            self.pushed_ms = Some(now_ms);
        }
        admits
    }
}

/// Client instances that the broker knows.
#[derive(Debug)]
pub struct Instances {
    by_id: LruCache<Uuid, Instance, RandomState>,
}

impl Default for Instances {
    fn default() -> Self {
        Self { by_id: LruCache::unbounded_with_hasher(RandomState::new()) }
    }
}

impl Instances {
    /// Number of instances.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// True if a request with this id would make the instance, or replace it.
    pub fn is_new(&self, offer: &Offer) -> bool {
        self.by_id.peek(&offer.instance_id).is_none_or(|one| is_past(one, offer))
    }

    /// Processes a request for subscriptions, of a client that is to push these metrics.
    ///
    /// # Errors
    /// The request comes too early.
    pub fn get(&mut self, offer: &Offer, requested: &Requested) -> Result<i32, GetRefusal> {
        let instance = self.instance(offer, || requested.clone());
        if !instance.admit_get(offer.now_ms) && !instance.may_ask {
            return Err(GetRefusal::Throttled);
        }
        instance.may_ask = false;
        Ok(instance.subscription_id)
    }

    /// Processes a push of a client that is to push these metrics. Returns the client's interval in
    /// milliseconds.
    ///
    /// # Errors
    /// The push is refused.
    pub fn push(
        &mut self,
        offer: &Offer,
        push: &Push,
        requested: impl FnOnce() -> Requested,
    ) -> Result<i32, PushRefusal> {
        let instance = self.instance(offer, requested);
        let refusal = if instance.terminating {
            Some(PushRefusal::Terminated)
        } else if !instance.admit_push(offer.now_ms) && !push.terminating {
            Some(PushRefusal::Throttled)
        } else if push.subscription_id != instance.subscription_id {
            Some(PushRefusal::UnknownSubscription)
        } else if !push.is_codec_known {
            Some(PushRefusal::UnsupportedCompression)
        } else if push.is_too_large {
            Some(PushRefusal::TooLarge)
        } else {
            None
        };
        // As in Kafka, a refused push counts as well: the next one after the last is taken again.
        instance.terminating = push.terminating;
        instance.may_ask =
            matches!(refusal, Some(PushRefusal::UnknownSubscription | PushRefusal::UnsupportedCompression));
        refusal.map_or(Ok(instance.interval_ms), Err)
    }

    /// Notes that the connection that created the instance has ended.
    pub fn disconnected(&mut self, instance_id: Uuid) {
        self.by_id.pop(&instance_id);
    }

    /// Ends instances without requests.
    pub fn expire(&mut self, now_ms: i64) {
        let expired = self.by_id.iter().filter(|(_, one)| one.expires_ms <= now_ms);
        let expired: Vec<Uuid> = expired.map(|(id, _)| *id).collect();
        for id in expired {
            self.by_id.pop(&id);
        }
    }

    fn instance(&mut self, offer: &Offer, requested: impl FnOnce() -> Requested) -> &mut Instance {
        if self.is_new(offer) {
            let requested = requested();
            if self.by_id.len() >= INSTANCES_MAX && !self.by_id.contains(&offer.instance_id) {
                self.by_id.pop_lru();
            }
            let made = Instance {
                subscription_id: requested.subscription_id(offer.instance_id),
                interval_ms: requested.interval_ms,
                version: offer.version,
                got_ms: None,
                pushed_ms: None,
                expires_ms: 0,
                terminating: false,
                may_ask: false,
            };
            self.by_id.push(offer.instance_id, made);
        }
        let instance =
            self.by_id.get_mut(&offer.instance_id).expect("the instance was made if it was missing");
        instance.expires_ms = offer.now_ms + idle_ms(instance.interval_ms);
        instance
    }
}

/// Time after its last request for which a client with this interval is kept.
pub(crate) fn idle_ms(interval_ms: i32) -> i64 {
    IDLE_MS_MIN.max(i64::from(interval_ms) * 3)
}

/// True if the instance counts as ended: it has former subscriptions, or has sent no requests for
/// long.
fn is_past(instance: &Instance, offer: &Offer) -> bool {
    instance.version != offer.version || instance.expires_ms <= offer.now_ms
}

#[cfg(test)]
mod tests;
