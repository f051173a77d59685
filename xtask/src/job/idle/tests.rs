//! Lines of `/proc/stat`.

use super::{Idle, Ticks, parse};

#[test]
fn idle_time_is_parsed_from_first_line() {
    let text = "cpu  10 1 5 80 4 0 1 2 3 0\ncpu0 1 2 3 4 5 6 7 8\n";
    assert_eq!(parse(text), Some(Ticks { idle: 84, all: 103 }));
    for other in ["", "cpu0 1 2 3 4 5", "cpu  1 2 3", "cpu  1 2 x 4 5 6 7 8"] {
        assert_eq!(parse(other), None, "{other:?}");
    }
}

#[test]
fn idle_share_is_available_after_one_tick() {
    let mut idle = Idle::new();
    let share = loop {
        if let Some(share) = idle.share() {
            break share;
        }
        std::hint::spin_loop();
    };
    assert!((0.0..=1.0).contains(&share), "{share}");
}
