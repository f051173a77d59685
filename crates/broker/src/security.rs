//! Who may come in (SASL) and what they may do (access control). Everything here is a state machine or a value: no clock, no
//! socket, no disk; time and randomness are parameters.

pub mod acl;
pub mod audit;
pub mod authorizer;
pub mod jaas;
pub mod oauth;
mod plain;
pub mod sasl;
pub mod scram;
mod session;

pub use self::session::Session;
