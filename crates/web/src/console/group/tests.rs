//! The chart of a group's lag.

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
