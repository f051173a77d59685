//! The one place in `security` with randomness: texts that nobody can guess.

/// 64 printable characters without a comma.
pub fn nonce() -> String {
    format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>())
}
