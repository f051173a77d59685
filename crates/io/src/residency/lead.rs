//! The end of the first run of pages that are all in the page cache or all missing, found by
//! counting, because the kernel reports counts.
//!
//! A pure function of such counts.

/// The pages that a range begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageRun {
    /// Number of pages, all in the page cache.
    There(u64),
    /// Number of pages, all missing.
    Missing(u64),
}

/// The first run of a range of `pages` pages, at least one. `count(start, length)` returns the
/// number of present pages in a part.
///
/// Fewer than `islands` present pages in a row do not end a run of missing ones, twice as many do;
/// such a run still ends with a missing page. The number of questions is twice the logarithm of
/// `pages`, and one for each `islands` pages of a run that has islands.
pub(super) fn first_run(pages: u64, islands: u64, count: impl Fn(u64, u64) -> u64) -> PageRun {
    let there = longest(pages, |length| count(0, length) == length);
    if there > 0 {
        return PageRun::There(there);
    }
    let mut end = longest(pages, |length| count(0, length) == 0).max(1);
    if islands == 0 {
        return PageRun::Missing(end);
    }
    while end < pages {
        let next = islands.min(pages - end);
        if count(end, next) == next {
            break;
        }
        end += next;
    }
    PageRun::Missing((end - longest(end - 1, |length| count(end - length, length) == length)).max(1))
}

/// The largest number up to `most` for which `holds`, which holds for all below one for which it
/// does; 0 if there is none.
fn longest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if most > 0 && holds(most) {
        return most;
    }
    // Holds for `low`, not for `high`.
    let (mut low, mut high) = (0, most);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests;
