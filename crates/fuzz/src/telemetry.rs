//! Any bytes as the payload of a client's push: it is read within its limits, or refused.

use levada_telemetry::{KeptLimits, KeptMetrics, Origin};
use levada_wire::Uuid;

const LIMITS: KeptLimits = KeptLimits { clients: 2, series: 3, bytes: 4096 };

/// Checks one input: the payload of two clients, twice each.
pub fn run(input: &[u8]) {
    let mut kept = KeptMetrics::default();
    for (now_ms, client) in [(0, 1), (1, 2), (2, 1), (3, 3)] {
        let origin = Origin {
            instance_id: Uuid::from_bytes([client; 16]),
            client_id: "client",
            user: "user",
            software: ("name", "1"),
            source: ([127, 0, 0, 1], 9092).into(),
            interval_ms: 1000,
            terminating: false,
        };
        // A damaged payload keeps the parts before the damage.
        let _ = kept.keep(&origin, input, &LIMITS, now_ms);
        assert!(kept.len() <= LIMITS.clients && kept.bytes() <= LIMITS.bytes, "{kept:?}");
        assert!(kept.series_count() <= LIMITS.clients * LIMITS.series, "{kept:?}");
    }
    let (exported, _) = kept.exported(&[String::new()], 4);
    assert!(exported.len() <= 4 && exported.iter().all(|one| one.value.is_finite()), "{exported:?}");
    kept.expire(i64::MAX);
    assert_eq!((kept.len(), kept.bytes()), (0, 0), "nothing is left");
}
