//! Client telemetry: its work, and the metrics of clients that the configuration names.

use std::fmt;

use levada_base::id_text;
use levada_broker::source::TelemetryState;

use super::catalogue;
use super::exposition::Families;

impl Families<'_> {
    pub(super) fn telemetry(&mut self, state: &TelemetryState) -> fmt::Result {
        self.gauge(catalogue::TELEMETRY_INSTANCES, state.instances)?;
        self.gauge(catalogue::TELEMETRY_CLIENTS, state.clients)?;
        self.gauge(catalogue::TELEMETRY_SERIES, state.series)?;
        self.gauge(catalogue::TELEMETRY_MEMORY, state.bytes)?;
        let mut series = self.family(catalogue::TELEMETRY_PUSHES)?;
        series.counter(&["accepted"], state.pushes.saturating_sub(state.damaged))?;
        series.counter(&["unknown_subscription"], state.unknown_subscriptions)?;
        series.counter(&["damaged"], state.damaged)?;
        self.counter(catalogue::TELEMETRY_THROTTLED, state.throttled)?;
        self.counter(catalogue::TELEMETRY_EVICTED, state.clients_evicted)?;
        self.counter(catalogue::TELEMETRY_LEFT_OUT, state.points_left_out)?;
        self.gauge(catalogue::TELEMETRY_NOT_EXPORTED, state.not_exported)?;
        if state.exported.is_empty() {
            return Ok(());
        }
        // A sum that can fall cannot be exported as a counter.
        let is_sum = |value: f64, is_counter: bool| is_counter && value >= 0.0;
        let mut series = self.family(catalogue::CLIENT_GAUGE)?;
        for one in state.exported.iter().filter(|one| !is_sum(one.value, one.is_counter)) {
            let id = id_text(one.instance_id.to_bytes());
            series.gauge(&[&one.name, &one.client_id, &id, &one.attributes], one.value)?;
        }
        let mut series = self.family(catalogue::CLIENT_SUM)?;
        for one in state.exported.iter().filter(|one| is_sum(one.value, one.is_counter)) {
            let id = id_text(one.instance_id.to_bytes());
            series.counter_f64(&[&one.name, &one.client_id, &id, &one.attributes], one.value)?;
        }
        Ok(())
    }
}
