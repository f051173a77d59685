//! One step of an authentication.

/// Outcome of a client's message.
#[derive(Debug, PartialEq)]
pub struct Step {
    /// Message to the client.
    pub challenge: Vec<u8>,
    /// Authenticated user, once the exchange has succeeded.
    pub user: Option<String>,
    /// Expiry of the authentication, if the mechanism sets one.
    pub expires_ms: Option<i64>,
}
