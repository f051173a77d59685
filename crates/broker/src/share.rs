//! Share groups (KIP-932) outside their coordinators. `states` sends requests to the coordinators
//! of their state, and `partitions` keeps the state of partitions that this broker leads there.

pub(crate) mod partitions;
pub(crate) mod states;
