//! Runs blocking work on threads other than the shards.

/// Runs `work` on a thread that may block, so that no shard does. A panic of `work` propagates to
/// the caller.
pub(crate) async fn off_shard<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
