//! Length of entries about clients that have not authenticated.

use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;
use crate::security::scram::ScramError;

/// Bytes of the longest field that was logged.
#[derive(Clone, Default)]
struct Longest(Arc<AtomicUsize>);

impl Visit for Longest {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        self.0.fetch_max(format!("{value:?}").len(), Ordering::Relaxed);
    }
}

impl Subscriber for Longest {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_user_who_is_refused_does_not_fill_the_audit_log_with_a_long_name() {
    let (longest, user) = (Longest::default(), "x".repeat(500_000));
    let error = ScramError::UnknownUser { user };
    tracing::subscriber::with_default(longest.clone(), || {
        refused(error.user(), Ipv4Addr::LOCALHOST.into(), "CLIENT", &error);
    });
    let bytes = longest.0.load(Ordering::Relaxed);
    assert!((900..1100).contains(&bytes), "{bytes} bytes");
}
