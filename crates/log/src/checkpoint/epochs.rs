//! The form of `leader-epoch-checkpoint`: leader epochs, and the offset at which each begins.

use super::lines::{self, Lines};

/// The file's name in a partition's directory.
pub const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";

/// Contents of the checkpoint file.
pub fn leader_epochs_text(entries: &[(i32, i64)]) -> String {
    lines::render(entries.iter().map(|(epoch, offset)| format!("{epoch} {offset}")))
}

/// The epochs in the file's contents, and the offset at which each begins.
///
/// # Errors
/// A description of the line that is not valid.
pub fn parse_leader_epochs(text: &str) -> Result<Vec<(i32, i64)>, String> {
    let mut entries = Vec::new();
    for line in Lines::parse(text)? {
        let mut words = line.split_ascii_whitespace();
        let epoch = words.next().and_then(|word| word.parse().ok());
        let offset = words.next().and_then(|word| word.parse().ok());
        let (Some(epoch), Some(offset), None) = (epoch, offset, words.next()) else {
            return Err(format!("{line:?} is not an epoch and an offset"));
        };
        if entries.last().is_some_and(|last: &(i32, i64)| epoch <= last.0 || offset < last.1) {
            return Err(format!("{line:?} is out of order"));
        }
        entries.push((epoch, offset));
    }
    Ok(entries)
}
