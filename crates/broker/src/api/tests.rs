//! What is served, against what Kafka serves.

mod documentation;
