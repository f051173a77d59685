//! The end of sessions while the wall clock is set.

use super::*;
use crate::clock::skew;
use crate::security::sasl::Mechanism;

const DAY_MS: i64 = 86_400_000;

#[test]
fn setting_the_wall_clock_ends_no_session_and_lengthens_none() {
    let identity =
        || AuthenticatedUser { user: "ann".to_owned(), mechanism: Mechanism::Plain, by_token: false };
    let hour_ms = 3_600_000;
    let session = Authenticated::new(identity(), Some(now_ms() + hour_ms), false);
    for skew_ms in [-DAY_MS, DAY_MS] {
        skew::by(skew_ms, || assert!(!session.is_over(Now::read().steady_ms)));
        skew::by(skew_ms, || assert!(session.is_over(Now::read().steady_ms + hour_ms + 1000)));
    }
    let of_token = skew::by(DAY_MS, || Authenticated::new(identity(), Some(now_ms() + hour_ms), false));
    assert!(!of_token.is_over(steady_ms()) && of_token.is_over(steady_ms() + hour_ms + 1000));
}
