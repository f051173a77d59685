//! The small files of a data directory: offset checkpoints, the identity of topics and directories,
//! and the mark of a clean shutdown. Each is replaced as a whole.

mod clean_shutdown;
mod epochs;
mod identity;
pub(crate) mod lines;
mod offsets;
mod replace;

pub use clean_shutdown::CleanShutdown;
pub use epochs::{LEADER_EPOCHS, leader_epochs_text, parse_leader_epochs};
pub use identity::{MetaProperties, PartitionMetadata};
pub use lines::{read_content, read_text};
pub use offsets::OffsetCheckpoint;
pub use replace::{Replacement, Rights, Synced, replace, sync_together};
