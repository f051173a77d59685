//! Applies the metadata: brings the partitions, coordinators and settings of this broker in line
//! with an image.
//!
//! `diff` compares two images, `apply` applies the differences and publishes the later image.
//! `serving` opens partitions and takes deleted ones out of service, `recovery` opens them in the
//! background after an unclean stop, `configs` applies changed configuration to logs, coordinators
//! and listeners, and `levels` and `roles` write lines of the log. No other code calls replicas,
//! coordinators and the fetchers of other brokers' partitions about changes of the image.

use std::sync::Arc;

use levada_base::log_pace::LogPace;
use levada_metadata::Metadata;

use crate::coordinator::Coordinators;
use crate::fetchers::Fetchers;
use crate::live_config::LiveConfig;
use crate::quota::QuotaBook;
use crate::replica::Replicas;
use crate::share_partitions::SharePartitions;
use crate::telemetry::ClientTelemetry;
use crate::tls::Tls;

mod apply;
mod configs;
mod diff;
mod levels;
mod recovery;
mod roles;
mod serving;

pub(crate) use self::apply::Aftermath;
pub(crate) use self::configs::ReloadError;

/// The rooms that follow the metadata.
#[derive(Clone)]
pub(crate) struct Publisher {
    pub(crate) config: Arc<LiveConfig>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) coordinators: Arc<Coordinators>,
    pub(crate) quotas: Arc<QuotaBook>,
    pub(crate) share_partitions: Arc<SharePartitions>,
    pub(crate) telemetry: Arc<ClientTelemetry>,
    pub(crate) tls: Arc<Tls>,
    /// Connections to the leaders of other partitions; none if the broker is its own controller.
    pub(crate) fetchers: Option<Arc<Fetchers>>,
    /// Lines about the roles of partitions.
    pub(crate) role_log: Arc<LogPace>,
}
