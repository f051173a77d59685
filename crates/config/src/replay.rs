//! The policy for old records in the page cache: `levada.replay.cache`.

/// Policy for old records that a consumer has read from the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayCache {
    /// Old records stay if they displace no other pages, or if they are read again soon.
    #[default]
    Auto,
    /// Old records always stay in the page cache.
    Always,
    /// Old records never stay in the page cache.
    Never,
}

impl ReplayCache {
    pub(super) fn of(text: Option<&str>) -> Self {
        match text {
            Some("always") => Self::Always,
            Some("never") => Self::Never,
            _ => Self::Auto,
        }
    }
}
