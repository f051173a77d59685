//! The command line, and Kafka's own tools.

mod administration;
mod command_line;
mod command_line_brokers;
mod command_line_changes;
mod command_line_cluster;
mod command_line_messages;
mod command_line_queues;
mod command_line_records;
mod command_line_streams;
mod schemas;
mod tail_pipe;
mod tools;
