//! Scales of a picture: positions of values, ticks, and number formats.

/// Map from a range of values to a range of pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start_px: f64,
    end_px: f64,
    log: bool,
}

/// Minimum ratio of the largest to the smallest value with a logarithmic scale.
const LOG_FROM_RATIO: f64 = 16.0;

impl Scale {
    /// Creates a scale from zero to slightly more than the largest value.
    pub(super) fn from_zero(largest: f64, start_px: f64, end_px: f64) -> Self {
        let to = if largest > 0.0 { largest * 1.02 } else { 1.0 };
        Self { from: 0.0, to, start_px, end_px, log: false }
    }

    /// Creates a scale from the smallest to the largest value. The scale is logarithmic if all
    /// values are positive and far apart, otherwise linear from zero.
    pub(super) fn covering(values: impl Iterator<Item = f64> + Clone, start_px: f64, end_px: f64) -> Self {
        let (least, most) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        if least > 0.0 && least.is_finite() && most / least >= LOG_FROM_RATIO {
            return Self { from: least, to: most, start_px, end_px, log: true };
        }
        Self::from_zero(most, start_px, end_px)
    }

    /// Pixel of `value`. Values outside the range get the pixel of the edge.
    pub(super) fn px(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self.start_px + part * (self.end_px - self.start_px)
    }

    /// About five values that are easy to read.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log { self.log_ticks() } else { self.even_ticks() }
    }
}

impl Scale {
    fn even_ticks(&self) -> Vec<f64> {
        let rough = (self.to - self.from) / 5.0;
        let magnitude = 10.0_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * magnitude);
        (0..=10).map(|at| f64::from(at) * step).take_while(|tick| *tick <= self.to).collect()
    }

    /// Powers of two if there are few of them, as for sizes and counts; otherwise powers of ten.
    fn log_ticks(&self) -> Vec<f64> {
        let powers = |base: f64, step: i32| {
            let first = (self.from.ln() / base.ln() - 1e-9).ceil() as i32;
            let last = (self.to.ln() / base.ln() + 1e-9).floor() as i32;
            (first..=last).filter(move |power| power.rem_euclid(step) == 0).map(move |power| base.powi(power))
        };
        let octaves = (self.to / self.from).log2();
        match octaves {
            ..=8.0 => powers(2.0, 1).collect(),
            ..=16.0 => powers(2.0, 2).collect(),
            _ => powers(10.0, 1).collect(),
        }
    }
}
