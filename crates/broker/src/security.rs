//! Authentication (SASL) and access control. Everything here is a state machine or a value without
//! clock, socket or disk; time is a parameter.

pub mod acl;
pub mod audit;
pub mod authorizer;
pub mod delegation;
pub mod jaas;
pub mod login;
mod nonce;
pub mod oauth;
mod plain;
pub mod sasl;
pub mod scram;
mod session;

pub use self::nonce::{nonce, process_secret};
pub use self::session::Session;
