//! Parsing, rounding and the choice of seeds.

use std::panic::catch_unwind;

use crate::setting::{SeedChoice, least, scale, scaled, seed_choice, seeds};

#[test]
fn a_scale_is_a_finite_number_above_zero() {
    for (text, expected) in [(None, 1.0), (Some("1"), 1.0), (Some("0.3"), 0.3), (Some("2e3"), 2000.0)] {
        assert_eq!(scale(text), expected, "{text:?}");
    }
    for wrong in ["", "0", "-1", "inf", "NaN", "x", "1,5", " 1"] {
        assert!(catch_unwind(|| scale(Some(wrong))).is_err(), "{wrong:?}");
    }
}

#[test]
fn scaled_count_is_rounded_to_at_least_one() {
    let table = [(16, 1.0, 16), (16, 0.3, 5), (5, 0.3, 2), (1, 0.3, 1), (24, 21.0, 504), (0, 7.0, 1)];
    for (count, scale, expected) in table {
        assert_eq!(scaled(count, scale), expected as u32, "{count} at {scale}");
        assert_eq!(scaled(count as u64, scale), expected as u64, "{count} at {scale}");
        assert_eq!(scaled(count as usize, scale), expected as usize, "{count} at {scale}");
    }
}

#[test]
fn a_minimum_of_events_follows_the_scale() {
    for (count, scale, expected) in
        [(30, 1.0, 30), (30, 0.3, 9), (5, 0.3, 1), (2, 0.3, 0), (900, 0.05, 0), (8, 20.0, 160)]
    {
        assert_eq!(least(count, scale, SeedChoice::Fixed), expected, "{count} at {scale}");
        assert_eq!(least(count, scale, SeedChoice::Random), expected, "{count} at {scale}");
        assert_eq!(least(count, scale, SeedChoice::Number(1)), 0, "{count} at {scale}");
    }
}

#[test]
fn a_seed_is_a_number_or_random() {
    assert_eq!(seed_choice(None), SeedChoice::Fixed);
    assert_eq!(seed_choice(Some("random")), SeedChoice::Random);
    assert_eq!(seed_choice(Some("18446744073709551615")), SeedChoice::Number(u64::MAX));
    for wrong in ["", "Random", "-1", "1.5", "0x10"] {
        assert!(catch_unwind(|| seed_choice(Some(wrong))).is_err(), "{wrong:?}");
    }
}

#[test]
fn given_seed_runs_one_history() {
    assert_eq!(seeds(300, SeedChoice::Fixed, || 40), 0..300);
    assert_eq!(seeds(300, SeedChoice::Random, || 40), 40..340);
    assert_eq!(seeds(300, SeedChoice::Number(7), || 40), 7..8);
}
