//! The laboratory, and its report.

mod lab;
mod lab_broker;
mod lab_files;
mod report;
