//! Case by case, the coordinator's own writes, and its bounds.

mod bounds;
mod in_flight;
mod own_writes;
mod scenarios;
