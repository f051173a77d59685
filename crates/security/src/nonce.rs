//! Random nonces, the only randomness in `security`.

use std::sync::LazyLock;

/// 64 printable characters without a comma.
pub fn nonce() -> String {
    format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>())
}

/// Secret of this process, constant while it runs.
pub fn process_secret() -> &'static str {
    static SECRET: LazyLock<String> = LazyLock::new(nonce);
    &SECRET
}
