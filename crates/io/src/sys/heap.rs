//! The allocator of the C library.

/// Gives the pages of freed memory back to the kernel. Does nothing with another C library than
/// glibc.
///
/// Threads whose memory is in the part of the heap that is being searched wait in the meantime: 40
/// to 140 ms for a gigabyte in blocks of 30 kB, 200 ms for a quarter of it in blocks of 64 bytes.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the call has no preconditions, and it moves no allocation.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    //! Memory that goes back.

    use super::*;

    fn own_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: Vec<usize> = statm.split_whitespace().map(|pages| pages.parse().unwrap()).collect();
        (pages[1] - pages[2]) * rustix::param::page_size()
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn trim_returns_memory_below_live_blocks() {
        const BYTES: usize = 256 << 20;
        let mut blocks: Vec<Vec<u8>> = (0..BYTES / 30_000).map(|_| vec![1; 30_000]).collect();
        let last = blocks.pop();
        drop(blocks);
        let before = own_bytes();
        trim_heap();
        let after = own_bytes();
        assert!(
            before.saturating_sub(after) > BYTES / 2 || before < BYTES / 2,
            "{before} bytes, then {after}"
        );
        drop(last);
    }
}
