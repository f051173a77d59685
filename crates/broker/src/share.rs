//! Share groups (KIP-932) outside their coordinators. `states` sends requests to the coordinators of
//! their state.

pub(crate) mod states;
