//! Values of the variables, and the sizes and seeds that follow from them.

use std::ops::Range;

/// An integer that counts rounds, cases, histories or bytes.
pub trait Count: Copy {
    /// The count as a floating-point number.
    fn to_f64(self) -> f64;
    /// The count nearest to a positive number.
    fn from_f64(number: f64) -> Self;
}

macro_rules! count {
    ($($integer:ty),*) => {$(
        impl Count for $integer {
            fn to_f64(self) -> f64 {
                self as f64
            }

            fn from_f64(number: f64) -> Self {
                number.round() as Self
            }
        }
    )*};
}

count!(u32, u64, usize);

/// Source of the seeds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeedChoice {
    /// A seed that is the same in each run.
    Fixed,
    Random,
    Number(u64),
}

pub(crate) fn scale(given: Option<&str>) -> f64 {
    let Some(text) = given else { return 1.0 };
    match text.parse() {
        Ok(scale) if f64::is_finite(scale) && scale > 0.0 => scale,
        _ => panic!("LEVADA_TEST_SCALE is {text:?}: set it to a number above 0, such as 0.3 or 20"),
    }
}

pub(crate) fn scaled<N: Count>(count: N, scale: f64) -> N {
    N::from_f64((count.to_f64() * scale).max(1.0))
}

/// Scale below which the few histories of a run may differ much from the mean.
const SCALE_MEAN: f64 = 0.1;

pub(crate) fn least(count: usize, scale: f64, choice: SeedChoice) -> usize {
    match choice {
        SeedChoice::Number(_) => 0,
        SeedChoice::Fixed | SeedChoice::Random if scale < SCALE_MEAN => 0,
        SeedChoice::Fixed | SeedChoice::Random => (count as f64 * scale).floor() as usize,
    }
}

pub(crate) fn seed_choice(given: Option<&str>) -> SeedChoice {
    match given {
        None => SeedChoice::Fixed,
        Some("random") => SeedChoice::Random,
        Some(text) => match text.parse() {
            Ok(seed) => SeedChoice::Number(seed),
            Err(_) => panic!("LEVADA_TEST_SEED is {text:?}: set it to a number, or to `random`"),
        },
    }
}

pub(crate) fn seeds(count: u64, choice: SeedChoice, drawn: impl FnOnce() -> u64) -> Range<u64> {
    match choice {
        SeedChoice::Fixed => 0..count,
        SeedChoice::Random => {
            let first = drawn();
            first..first + count
        }
        SeedChoice::Number(seed) => seed..seed.saturating_add(1),
    }
}
