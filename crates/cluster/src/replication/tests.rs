//! Replication as a whole: the machines of this module with logs, a controller and a network.

mod simulation;
