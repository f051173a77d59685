//! Brokers of Levada in clusters of a real Kafka's controllers and brokers.

mod cluster;
mod cluster_quorum;
mod console_cluster;
mod console_outage;
mod controller_listeners;
mod coordinators_cluster;
mod damaged_replica;
mod delegation_tokens;
mod footprint_cluster;
mod forwarding;
mod member;
mod mixed_faults;
mod newer_kafka;
mod quorum;
mod replacement;
mod replication;
mod replication_faults;
mod replication_moves;
mod share_cluster;
mod sick_disks;
mod streams_cluster;
mod tiered_cases;
mod tiered_cluster;
