//! A broker as its operator sees it: the console, metrics, signals, limits and packages.

mod churn;
mod client_telemetry;
mod configuration;
mod console;
mod console_access;
mod deployment;
mod footprint;
mod half_open;
mod logs;
mod metrics_hostile;
mod overload;
mod prometheus;
mod remembered;
mod restricted;
mod signals;
