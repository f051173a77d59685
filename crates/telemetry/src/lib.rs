//! Client telemetry (KIP-714), sans I/O: the subscriptions and the clients that they match
//! ([`Subscriptions`]), the client instances and the checks of their requests ([`Instances`]), the
//! payload of a push ([`otlp`]), and the metrics that are kept for each client ([`KeptMetrics`]).
//!
//! Times are parameters, in milliseconds of a clock that never goes back.

mod instances;
mod kept;
pub mod otlp;
mod subscriptions;

pub use self::instances::{GetRefusal, INSTANCES_MAX, Instances, Offer, Push, PushRefusal};
pub use self::kept::{About, Client, ClientRow, Exported, KeptLimits, KeptMetrics, Origin, Series};
pub use self::subscriptions::{
    Attribute, Identity, MatchPattern, PatternError, Requested, Subscription, Subscriptions,
};

/// Interval of a client without a matching subscription, and the default of a subscription, ms.
pub const INTERVAL_MS_DEFAULT: i32 = 5 * 60 * 1000;
