//! Acts on the metadata: brings what this broker serves in line with an image.
//!
//! `serving` opens the partitions of an image and takes deleted ones out of service, `recovery` does the first beside serving after
//! an unclean stop, `configs` has logs, coordinators and listeners go by changed configuration. This is the only place that
//! calls both replicas and coordinators about it.

use std::sync::Arc;

use crate::config::LiveConfig;
use crate::coordinator::Coordinators;
use crate::metadata::Metadata;
use crate::metadata::image::{Image, Quotas};
use crate::quota::QuotaBook;
use crate::replica::Replicas;
use crate::tls::Tls;

mod configs;
mod recovery;
mod serving;

pub(crate) use self::configs::ReloadError;

/// The rooms that follow the metadata.
#[derive(Clone)]
pub(crate) struct Publisher {
    pub(crate) config: Arc<LiveConfig>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) coordinators: Arc<Coordinators>,
    pub(crate) quotas: Arc<QuotaBook>,
    pub(crate) tls: Arc<Tls>,
}

impl Publisher {
    /// Has client quotas go by these limits.
    pub(crate) fn apply_quotas(&self, limits: &Quotas) {
        self.quotas.set_limits(limits);
    }

    /// Tells group coordinators that topics have come, gone or grown. `latest` is asked when it is this change's turn.
    pub(crate) fn topics_changed(&self, latest: impl FnOnce() -> Arc<Image>) {
        self.coordinators.topics_changed(latest);
    }
}
