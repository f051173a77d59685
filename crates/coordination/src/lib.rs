//! State machines of the coordinators: consumer groups, transactions, share groups.
//!
//! - [`machine`]: the contract between a machine and its host. Events and the time go in, actions
//!   come out.
//! - [`group`]: members, generations and committed offsets of groups, by the classic protocol and
//!   by that of KIP-848, members of share groups (KIP-932), and members and tasks of streams groups
//!   (KIP-1071); one [`group::Coordinator`] for each partition of `__consumer_offsets`.
//!   `group/classic`, `group/consumer`, `group/share` and `group/streams` are the four protocols,
//!   `group/timers` ends sessions.
//! - [`txn`]: owners of transactional ids, and the ends of their transactions; one
//!   [`txn::Coordinator`] for each partition of `__transaction_state`.
//! - [`share_partition`]: delivery of one topic partition's records to the members of a share group
//!   (KIP-932), on the leader of the topic partition; one [`share_partition::SharePartition`] each.
//! - [`share_state`]: delivery states of shared partitions; one [`share_state::Coordinator`] for
//!   each partition of `__share_group_state`.
//! - [`pattern`]: clients' regular expressions, bounded.
//!
//! Nothing here opens a file or a socket, starts a thread, or reads a clock, and none of this
//! crate's dependencies is for that.

mod error_map;
pub mod group;
pub mod machine;
pub mod pattern;
pub mod share_partition;
pub mod share_state;
pub mod txn;
