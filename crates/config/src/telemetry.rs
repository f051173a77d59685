//! Settings of client telemetry: when it is offered to clients, and the limits of stored metrics.

use super::reader::Reader;
use super::words::words;

/// Condition under which the broker offers telemetry to clients: `levada.client.telemetry`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TelemetryOffer {
    /// Offered while there is a subscription or a metric to export.
    #[default]
    Auto,
    /// ApiVersions always lists the APIs.
    Always,
    /// ApiVersions never lists the APIs.
    Never,
}

/// Settings of client telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// `levada.client.telemetry`.
    pub offer: TelemetryOffer,
    /// `telemetry.max.bytes`.
    pub max_bytes: u32,
    /// `levada.client.telemetry.metrics`.
    pub exported: Vec<String>,
    /// `levada.client.telemetry.max.clients`.
    pub max_clients: u32,
    /// `levada.client.telemetry.max.series`.
    pub max_series: u32,
}

impl Reader<'_> {
    pub(super) fn telemetry(&self) -> TelemetryConfig {
        TelemetryConfig {
            offer: match self.text("levada.client.telemetry") {
                "always" => TelemetryOffer::Always,
                "never" => TelemetryOffer::Never,
                _ => TelemetryOffer::Auto,
            },
            max_bytes: self.size("telemetry.max.bytes"),
            exported: words(self.text("levada.client.telemetry.metrics")).map(str::to_owned).collect(),
            max_clients: self.size("levada.client.telemetry.max.clients"),
            max_series: self.size("levada.client.telemetry.max.series"),
        }
    }
}
