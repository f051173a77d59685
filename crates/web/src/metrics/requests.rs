//! Requests by API: counts, bytes, error codes and times.

use std::fmt;

use levada_broker::source::{ApiTotals, BOUNDS_US, Durations, Phase};

use super::catalogue::{
    Family, REQUEST_BYTES, REQUEST_ERRORS, REQUEST_LOCAL, REQUEST_SENDING, REQUEST_THROTTLED, REQUEST_TOTAL,
    REQUEST_WAITING, REQUESTS, RESPONSE_BYTES,
};
use super::exposition::Families;

/// Function that reads one count of an API.
type Count = fn(&ApiTotals) -> u64;

impl Families<'_> {
    pub(super) fn requests(&mut self, totals: &[(&'static str, ApiTotals)]) -> fmt::Result {
        let counters: [(&'static Family, Count); 3] = [
            (REQUESTS, |api| api.requests),
            (REQUEST_BYTES, |api| api.request_bytes),
            (RESPONSE_BYTES, |api| api.response_bytes),
        ];
        for (family, value) in counters {
            let mut series = self.family(family)?;
            totals.iter().try_for_each(|(api, counted)| series.counter(&[api], value(counted)))?;
        }
        let mut series = self.family(REQUEST_ERRORS)?;
        for (api, counted) in totals {
            counted.errors.iter().try_for_each(|(error, count)| series.counter(&[api, error], *count))?;
        }
        for (phase, family) in [
            (Phase::Total, REQUEST_TOTAL),
            (Phase::Local, REQUEST_LOCAL),
            (Phase::Waiting, REQUEST_WAITING),
            (Phase::Throttled, REQUEST_THROTTLED),
            (Phase::Sending, REQUEST_SENDING),
        ] {
            let mut series = self.family(family)?;
            for (api, counted) in totals {
                let durations = &counted.phases[phase as usize];
                series.histogram(&[api], durations.sum_ns as f64 / 1e9, &buckets(durations))?;
            }
        }
        Ok(())
    }
}

/// Upper bounds in seconds with the number of durations in each bucket.
pub(super) fn buckets(durations: &Durations) -> [(f64, u64); BOUNDS_US.len() + 1] {
    std::array::from_fn(|at| {
        let bound = BOUNDS_US.get(at).map_or(f64::INFINITY, |us| *us as f64 / 1e6);
        (bound, durations.buckets[at])
    })
}
