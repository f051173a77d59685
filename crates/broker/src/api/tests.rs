//! The served APIs and versions, compared with Kafka's.

mod documentation;
mod leading;
