//! Against the answers of a real Kafka, and case by case.

mod clocks;
mod oracle;
mod scenarios;
