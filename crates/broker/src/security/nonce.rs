//! Random nonces, the only randomness in `security`.

use std::sync::LazyLock;

/// 64 printable characters without a comma.
pub fn nonce() -> String {
    format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>())
}

/// What nobody outside this process knows; the same for as long as it runs.
pub fn process_secret() -> &'static str {
    static SECRET: LazyLock<String> = LazyLock::new(nonce);
    &SECRET
}
