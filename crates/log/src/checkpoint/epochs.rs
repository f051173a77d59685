//! The form of `leader-epoch-checkpoint`: leader epochs, and the offset at which each begins.

use super::lines;

/// The file's name in a partition's directory.
pub const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";

/// The file's contents.
pub fn leader_epochs_text(entries: &[(i32, i64)]) -> String {
    lines::render(entries.iter().map(|(epoch, offset)| format!("{epoch} {offset}")))
}
