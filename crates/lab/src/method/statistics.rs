//! Medians and their confidence, without assumptions about the distribution of values.

use serde::{Deserialize, Serialize};

/// A median with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Median of the values.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Probability that the true median is between the ends: at least 0.95 from six values on, and
    /// less for fewer values.
    pub confidence: f64,
    /// Number of values.
    pub count: usize,
}

/// Minimum confidence of an interval, if there are enough values.
const CONFIDENCE: f64 = 0.95;

impl Interval {
    /// Computes the interval of some values, without values that are not finite. None without
    /// values.
    ///
    /// The ends are order statistics. A value is below the true median with probability 1/2.
    /// Therefore the k-th smallest and the k-th largest of n values enclose the true median with a
    /// probability that depends only on k and n.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let (outside, confidence) = narrowest(count)?;
        Some(Self {
            median: middle(&values),
            low: values[outside],
            high: values[count - 1 - outside],
            confidence,
            count,
        })
    }

    /// Half the width of the interval, divided by the median; none for a median of zero.
    pub fn spread(&self) -> Option<f64> {
        (self.median != 0.0).then(|| (self.high - self.low) / 2.0 / self.median.abs())
    }
}

/// Number of values to omit at each end so that the remaining ones still have the confidence, and
/// the exact confidence.
fn narrowest(count: usize) -> Option<(usize, f64)> {
    if count == 0 {
        return None;
    }
    let n = i32::try_from(count).ok()?;
    let mut term = 0.5f64.powi(n);
    let mut tail = term;
    let mut best = (0, 1.0 - 2.0 * tail);
    for outside in 1..count.div_ceil(2) {
        term *= (count - outside + 1) as f64 / outside as f64;
        tail += term;
        let confidence = 1.0 - 2.0 * tail;
        if confidence < CONFIDENCE {
            break;
        }
        best = (outside, confidence);
    }
    Some((best.0, best.1.max(0.0)))
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[half - 1], sorted[half]) } else { sorted[half] }
}

#[cfg(test)]
mod tests;
