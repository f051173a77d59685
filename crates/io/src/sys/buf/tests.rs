//! Tests of the buffers.

use super::*;
use crate::sys::memory::ALIGNMENT;

#[test]
fn each_buffer_has_its_own_aligned_bytes() {
    let pool = BufferPool::new(8192, 3).unwrap();
    let mut all: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(all.len(), 3);
    for (mark, buffer) in (1..).zip(&mut all) {
        assert!(buffer.space().as_ptr().addr().is_multiple_of(ALIGNMENT));
        buffer.space().fill(mark);
        buffer.set_len(8192);
    }
    for (mark, buffer) in (1_u8..).zip(&all) {
        assert!(buffer.filled().iter().all(|byte| *byte == mark));
    }
}

#[test]
fn dropped_buffer_returns_to_its_pool() {
    let pool = BufferPool::new(10, 1).unwrap();
    let mut buffer = pool.take().unwrap();
    assert!(pool.take().is_none());
    buffer.space()[..3].copy_from_slice(b"abc");
    buffer.set_len(3);
    let bytes = buffer.into_bytes();
    let part = bytes.slice(1..);
    drop(bytes);
    assert!(pool.take().is_none());
    assert_eq!(part, b"bc"[..]);
    drop(part);
    assert!(pool.take().is_some());
}

#[test]
fn buffers_outlive_their_pool() {
    let pool = BufferPool::new(10, 2).unwrap();
    let mut buffer = pool.take().unwrap();
    drop(pool);
    buffer.space().fill(7);
    buffer.set_len(10);
    assert_eq!(buffer.filled(), [7; 10]);
}

#[test]
fn buffer_pool_refuses_zero_and_huge_sizes() {
    assert!(BufferPool::new(0, 3).is_err());
    assert!(BufferPool::new(3, 0).is_err());
    assert!(BufferPool::new(usize::MAX, 2).is_err());
}

#[test]
#[should_panic(expected = "do not fit")]
fn a_length_beyond_the_end_panics() {
    BufferPool::new(10, 1).unwrap().take().unwrap().set_len(11);
}
