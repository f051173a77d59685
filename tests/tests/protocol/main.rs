//! Requests and answers on the wire: every API, honest and hostile clients, and the quick starts.

mod answers;
mod connections;
mod differences;
mod features;
mod hostile;
mod hostile_principals;
mod hostile_requests;
mod kafka_requests;
mod pipelining;
mod quick_start;
mod round_trip;
mod share_answers;
mod share_partitions;
mod streams_answers;
mod streams_assignor;
