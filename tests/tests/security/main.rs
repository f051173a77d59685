//! Logins, permissions, certificates and secrets.

mod authentication;
mod secrets;
mod security;
mod tls;
