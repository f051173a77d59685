//! An arbitrary stream, cut anywhere: frames come out whole and in order, and memory follows the
//! received bytes.

use levada_wire::frame::FrameBuffer;

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((count, rest)) = input.split_first() else { return };
    let (cuts, stream) = rest.split_at(usize::from(*count).min(rest.len()));
    let mut frames = FrameBuffer::new(1 << 20);
    let (mut rest, mut taken, mut largest) = (stream, 0, 0);
    for cut in cuts.iter().cycle().take(10_000) {
        let (now, later) = rest.split_at((1 + *cut as usize * 16).min(rest.len()));
        frames.spare().extend_from_slice(now);
        rest = later;
        loop {
            match frames.next_frame() {
                Ok(Some(frame)) => {
                    assert_eq!(frame, stream[taken + 4..taken + 4 + frame.len()]);
                    taken += 4 + frame.len();
                    largest = largest.max(frame.len());
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let pending = frames.pending();
        assert_eq!(pending, stream.len() - rest.len() - taken);
        let spare = frames.spare();
        assert!(spare.capacity() > spare.len());
        assert!(spare.capacity() <= 2 * (pending + largest) + 16 * 1024, "{}", spare.capacity());
        if rest.is_empty() {
            return;
        }
    }
}
