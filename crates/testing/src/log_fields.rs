//! Fields of log records, for tests.

use std::fmt::Debug;

use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that passes each field of each record to its function.
pub struct LogFields<F>(pub F);

impl<F: Fn(&Field, &dyn Debug) + 'static> Subscriber for LogFields<F> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut |field: &Field, value: &dyn Debug| (self.0)(field, value));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
