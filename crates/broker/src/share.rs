//! Share groups (KIP-932) outside their coordinators. `states` sends requests to the coordinators
//! of their state, `partitions` keeps the state of partitions that this broker leads there, and
//! `dead_letters` writes the dead letters of their records.

pub(crate) mod dead_letters;
pub(crate) mod partitions;
pub(crate) mod states;
