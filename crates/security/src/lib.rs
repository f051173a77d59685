//! Authentication, access control, the audit log, and the stores of keys and certificates.
//!
//! - [`sasl`]: the exchange of a connection, over `plain`, [`scram`] and [`oauth`]; [`jaas`] and
//!   [`login`] are the credentials of clients, [`delegation`] the tokens of users.
//! - [`acl`], [`authorizer`]: rules, and the decision about an operation.
//! - [`audit`]: lines about decisions and logins.
//! - [`keystore`]: Kafka's `ssl.*` settings for rustls. It reads files, so its functions block.
//!
//! Everything else is a state machine or a value without clock, socket or disk; the time is given.

pub mod acl;
pub mod audit;
pub mod authorizer;
pub mod delegation;
pub mod jaas;
pub mod keystore;
pub mod login;
mod nonce;
pub mod oauth;
mod plain;
pub mod sasl;
pub mod scram;
mod session;
mod step;

pub use self::nonce::{nonce, process_secret};
pub use self::session::Session;
pub use self::step::Step;
