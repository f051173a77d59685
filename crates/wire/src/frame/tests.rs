//! Tests of `frame`.

use proptest::prelude::*;

use super::*;

fn frame(length: i32, body: &[u8]) -> Vec<u8> {
    [&length.to_be_bytes()[..], body].concat()
}

#[test]
fn invalid_frame_lengths_are_refused() {
    #[track_caller]
    fn check(first_four: [u8; 4], expected: FrameError) {
        let mut frames = FrameBuffer::new(1000);
        frames.spare().extend_from_slice(&first_four);
        assert_eq!(frames.next_frame().unwrap_err(), expected);
    }
    let too_large = |claimed, hint| FrameError::TooLarge { claimed, limit_bytes: 1000, hint };
    check((-1i32).to_be_bytes(), FrameError::Negative { claimed: -1 });
    check(i32::MIN.to_be_bytes(), FrameError::Negative { claimed: i32::MIN });
    check([0; 4], FrameError::Empty);
    check(1001u32.to_be_bytes(), too_large(1001, ""));
    check(i32::MAX.to_be_bytes(), too_large(i32::MAX as u32, ""));
    check([0x16, 3, 1, 2], too_large(0x1603_0102, "; this looks like TLS on a plaintext port"));
    check(*b"GET ", too_large(u32::from_be_bytes(*b"GET "), "; this looks like HTTP"));
}

#[test]
fn limit_is_inclusive_and_can_be_raised() {
    let mut frames = FrameBuffer::new(4);
    frames.spare().extend_from_slice(&frame(4, b"abcd"));
    assert_eq!(frames.next_frame().unwrap().unwrap(), &b"abcd"[..]);
    frames.spare().extend_from_slice(&frame(5, b"abcde"));
    assert!(frames.next_frame().is_err());
    frames.set_limit(5);
    assert_eq!(frames.next_frame().unwrap().unwrap(), &b"abcde"[..]);
}

/// Receives `bytes` of a frame that claims to have `claimed`, and returns the largest capacity ever
/// held.
fn receive(frames: &mut FrameBuffer, claimed: usize, bytes: usize) -> usize {
    frames.spare().extend_from_slice(&(claimed as u32).to_be_bytes());
    let (mut sent, mut most) = (0, 0);
    loop {
        assert!(frames.next_frame().unwrap().is_none() || sent == claimed);
        let spare = frames.spare();
        assert!(spare.capacity() > spare.len());
        most = most.max(spare.capacity());
        if sent == bytes {
            return most;
        }
        let count = (spare.capacity() - spare.len()).min(bytes - sent).min(3000);
        spare.extend_from_slice(&vec![7; count]);
        sent += count;
    }
}

#[test]
fn claimed_frame_length_reserves_no_memory() {
    let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
    let most = receive(&mut frames, MAX_FRAME_BYTES as usize, 0);
    assert!(most <= 2 * FIRST_READ_BYTES, "{most}");
}

#[test]
fn frame_buffer_grows_with_received_bytes() {
    for arrived in [10_000, 100_000, 1_000_000] {
        let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
        let most = receive(&mut frames, MAX_FRAME_BYTES as usize, arrived);
        assert!(most <= 4 * arrived + FIRST_READ_BYTES, "{most} after {arrived}");
    }
}

#[test]
fn completed_frame_allows_a_larger_buffer() {
    let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
    receive(&mut frames, 500_000, 500_000);
    let claimed = MAX_FRAME_BYTES;
    frames.spare().extend_from_slice(&claimed.to_be_bytes());
    let capacity = frames.spare().capacity();
    assert!((500_000..=1_100_000).contains(&capacity), "{capacity}");
}

#[test]
fn idle_connections_retain_little_buffer_memory() {
    let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
    receive(&mut frames, 500_000, 500_000);
    assert_eq!(frames.pending(), 0);
    let capacity = frames.spare().capacity();
    assert!(capacity <= KEPT_BYTES, "{capacity}");
}

#[test]
fn partial_next_frame_does_not_retain_large_one() {
    let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
    let stream = frame(1_000_000, &[7; 1_000_000]).into_iter();
    let mut stream = stream.chain(frame(1_000_000, &[8; 10]));
    let large = loop {
        let spare = frames.spare();
        let room = spare.capacity() - spare.len();
        spare.extend(stream.by_ref().take(room));
        if let Some(large) = frames.next_frame().unwrap() {
            break large;
        }
    };
    assert_eq!((large.len(), frames.pending()), (1_000_000, 14), "the next frame has begun");
    drop(large);
    // The buffer is unique now, and would take all of its memory back.
    assert!(!frames.bytes.try_reclaim(KEPT_BYTES), "14 bytes hold the memory of the frame before");
    frames.spare().extend_from_slice(&[8; 999_990]);
    assert_eq!(frames.next_frame().unwrap().unwrap(), &[8; 1_000_000][..]);
}

#[test]
fn repeated_frame_size_leaves_room_for_end_detection() {
    for length in [100, 16_000, 60_000] {
        let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
        receive(&mut frames, length, length);
        let spare = frames.spare();
        assert!(spare.capacity() - spare.len() > length + 4, "{length}");
    }
}

#[test]
fn resting_buffer_releases_all_but_pending_bytes() {
    let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
    receive(&mut frames, 10, 10);
    frames.spare();
    frames.rest();
    assert_eq!(frames.bytes.capacity(), 0);
    frames.spare().extend_from_slice(&[0, 0]);
    frames.rest();
    assert_eq!(frames.pending(), 2);
}

#[test]
fn pipelined_frames_get_larger_buffer_until_rest() {
    let mut frames = FrameBuffer::new(MAX_FRAME_BYTES);
    let body = frame(1_000, &[7; 1_000]);
    let mut stream = body.iter().copied().cycle();
    let mut most = 0;
    let mut handed_out = 0;
    while handed_out < 500 {
        let spare = frames.spare();
        let room = spare.capacity() - spare.len();
        spare.extend(stream.by_ref().take(room));
        most = most.max(spare.capacity());
        while let Some(frame) = frames.next_frame().unwrap() {
            assert!(frame.iter().all(|byte| *byte == 7));
            handed_out += 1;
        }
    }
    assert!((TOGETHER_BYTES - 1_000..=2 * TOGETHER_BYTES).contains(&most), "{most}");
    while !frames.has_frame() {
        frames.spare().extend(stream.by_ref().take(1));
    }
    assert_eq!(frames.next_frame().unwrap().unwrap().len(), 1_000);
    assert_eq!(frames.pending(), 0);
    frames.rest();
    let capacity = frames.spare().capacity();
    assert!(capacity <= 1_100, "{capacity}");
}

#[test]
fn has_frame_matches_next_frame() {
    #[track_caller]
    fn check(bytes: &[u8], expected: bool) {
        let mut frames = FrameBuffer::new(1000);
        frames.spare().extend_from_slice(bytes);
        assert_eq!(frames.has_frame(), expected, "{bytes:?}");
        assert_eq!(matches!(frames.next_frame(), Ok(Some(_))), expected, "{bytes:?}");
    }
    check(&[], false);
    check(&[0, 0, 0], false);
    check(&frame(0, b""), false);
    check(&frame(-1, b"abcd"), false);
    check(&frame(1001, &[0; 1001]), false);
    check(&frame(2, b"a"), false);
    check(&frame(2, b"ab"), true);
    check(&frame(2, b"abc"), true);
}

proptest! {
    #[test]
    fn any_stream_split_gives_the_same_frames(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9000), 1..6),
        cuts in prop::collection::vec(1usize..5000, 1..50),
    ) {
        let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body.len() as i32, body)).collect();
        let mut frames = FrameBuffer::new(10_000);
        let mut found = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            frames.spare().extend_from_slice(now);
            rest = later;
            while let Some(frame) = frames.next_frame().unwrap() {
                found.push(frame.to_vec());
            }
        }
        prop_assert_eq!(found, bodies);
        prop_assert_eq!(frames.pending(), 0);
    }
}
