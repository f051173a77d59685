//! The chart of a group's lag, and the reason for the lag.

use super::*;

/// The style sheet stretches the curve alone: scaled letters could not be read on a telephone.
#[test]
fn lag_chart_keeps_its_text_unscaled() {
    let sample = |at_ms, records| LagSample { at_ms, records, seconds: None };
    let drawn = chart(&[sample(0, 5), sample(HOUR_MS / 2, 1_000), sample(HOUR_MS, 0)]).into_string();
    assert!(drawn.starts_with("<div class=\"chart\"><svg role=\"img\" aria-label="), "{drawn}");
    let (curve, rest) = drawn.split_once("</svg>").unwrap();
    let (before, curve) = curve.split_once("<svg class=\"plot\"").unwrap();
    assert!(!before.contains("viewBox") && !curve.contains("<text"), "{drawn}");
    assert!(curve.contains("preserveAspectRatio=\"none\"") && curve.contains("500.0,10.0"), "{curve}");
    assert!(before.contains(">1,000</text>") && rest.contains(">now</text>"), "{drawn}");
}

#[test]
fn equal_members_are_not_blamed() {
    let member = |id: &str| GroupMember {
        id: id.to_owned(),
        instance: None,
        client: format!("client-{id}"),
        host: "/127.0.0.1".to_owned(),
        assigned: Vec::new(),
    };
    let members = ["a", "b", "c"].map(member);
    let blamed = |lags: &[(&'static str, u64)], count| {
        let found = slowest(&lags.iter().copied().collect(), &members[..count]);
        found.map(|(member, lag)| (member.client.as_str(), lag))
    };
    assert_eq!(blamed(&[("a", 8), ("b", 8), ("c", 8)], 3), None);
    assert_eq!(blamed(&[("a", 8), ("b", 9), ("c", 7)], 3), None);
    assert_eq!(blamed(&[("a", 8), ("b", 94), ("c", 8)], 3), Some(("client-b", 94)));
    assert_eq!(blamed(&[("c", 8)], 3), Some(("client-c", 8)), "the others have read everything");
    assert_eq!(blamed(&[("a", 8)], 1), Some(("client-a", 8)), "the only member");
}
