//! Behaviour of a share partition: scripts of requests and results for each subject, a comparison
//! of random histories with a simple model, and the memory that records take.

mod acknowledge;
mod acquire;
mod dead_letters;
mod figures;
mod gaps;
mod isolation;
mod kit;
mod letter_crashes;
mod log_start;
mod model;
mod oracle;
mod release;
mod writes;
