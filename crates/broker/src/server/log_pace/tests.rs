//! How many lines are told.

use super::*;

#[test]
fn some_lines_are_told_at_once_and_then_one_a_second() {
    let pace = LogPace::default();
    let start = Instant::now();
    let told = (0..100).filter(|_| pace.admit(start).is_some()).count();
    assert_eq!(told, 10);
    let later = start + Duration::from_secs(1);
    assert_eq!(pace.admit(later), Some(90));
    assert_eq!(pace.admit(later), None);
    assert_eq!((0..100).filter(|_| pace.admit(start + Duration::from_secs(60)).is_some()).count(), 10);
}
