//! A moment, as state machines receive it.

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970. Later moments may have a smaller one.
    pub wall_ms: i64,
    /// Milliseconds since the process began to count; later moments never have a smaller one.
    pub steady_ms: i64,
}
