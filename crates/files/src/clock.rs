//! The time of one shard, with its form in headers made once a second.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

use crate::answer::Moment;

/// A clock that caches the text of the last second.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    second: Cell<u64>,
    date: RefCell<String>,
}

impl Clock {
    /// Passes the time `now` on, with its text.
    pub(crate) fn with<T>(&self, now: SystemTime, use_it: impl FnOnce(Moment<'_>) -> T) -> T {
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second != self.second.get() || self.date.borrow().is_empty() {
            let mut date = self.date.borrow_mut();
            date.clear();
            write!(date, "{}", HttpDate::from(now)).expect("a String takes all");
            self.second.set(second);
        }
        use_it(Moment { now, second, date: &self.date.borrow() })
    }
}
