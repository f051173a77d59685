//! Against the answers of a real Kafka, and case by case.

mod oracle;
mod scenarios;
