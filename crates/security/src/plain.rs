//! PLAIN (RFC 4616): a user name and a password in the clear, compared with a list.

use std::collections::BTreeMap;

use crate::scram::same_secret;

#[cfg(test)]
mod tests;

/// The reason why a client is refused. The client gets these texts, in Kafka's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlainError {
    #[error("Invalid SASL/PLAIN response: expected 3 tokens, got {found}")]
    Malformed { found: usize },
    #[error("Authentication failed: username not specified")]
    NoUser,
    #[error("Authentication failed: password not specified")]
    NoPassword,
    #[error("Authentication failed: Invalid username or password")]
    Wrong { user: String },
    #[error("Authentication failed: Client requested an authorization id that is different from username")]
    OtherIdentity { user: String },
}

impl PlainError {
    /// The user who was named, if one was.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Wrong { user } | Self::OtherIdentity { user } => Some(user),
            Self::Malformed { .. } | Self::NoUser | Self::NoPassword => None,
        }
    }
}

/// The user who sent `message`, if the password is right.
pub(crate) fn authenticate(
    message: &[u8],
    passwords: &BTreeMap<String, String>,
) -> Result<String, PlainError> {
    let text = String::from_utf8_lossy(message);
    let tokens: Vec<&str> = text.splitn(4, '\0').collect();
    let [authorization_id, user, password] = tokens[..] else {
        return Err(PlainError::Malformed { found: tokens.len() });
    };
    if user.is_empty() {
        return Err(PlainError::NoUser);
    }
    if password.is_empty() {
        return Err(PlainError::NoPassword);
    }
    let user = user.to_owned();
    let right = match passwords.get(&user) {
        Some(expected) => same_secret(expected.as_bytes(), password.as_bytes()),
        // The same work as for an existing user.
        None => same_secret(b"", password.as_bytes()),
    };
    if !right {
        return Err(PlainError::Wrong { user });
    }
    if !authorization_id.is_empty() && authorization_id != user {
        return Err(PlainError::OtherIdentity { user });
    }
    Ok(user)
}
