//! Length of entries about clients that have not authenticated.

use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use levada_testing::LogFields;
use tracing::field::Field;

use super::*;
use crate::scram::ScramError;

#[test]
fn refused_user_name_is_shortened_in_audit_log() {
    let (longest, user) = (Arc::new(AtomicUsize::new(0)), "x".repeat(500_000));
    let error = ScramError::UnknownUser { user };
    let measured = Arc::clone(&longest);
    let measure = move |_: &Field, value: &dyn Debug| {
        measured.fetch_max(format!("{value:?}").len(), Ordering::Relaxed);
    };
    tracing::subscriber::with_default(LogFields(measure), || {
        refused(error.user(), Ipv4Addr::LOCALHOST.into(), "CLIENT", &error);
    });
    let bytes = longest.load(Ordering::Relaxed);
    assert!((900..1100).contains(&bytes), "{bytes} bytes");
}
