//! Zig-zag variable-length integers, as records use them.

/// Takes a signed 32-bit number off the front of `bytes`.
pub(super) fn take_i32(bytes: &mut &[u8]) -> Option<i32> {
    i32::try_from(take(bytes, 5)?).ok()
}

/// Takes a signed 64-bit number off the front of `bytes`.
pub(super) fn take_i64(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes, 10)
}

fn take(bytes: &mut &[u8], longest: usize) -> Option<i64> {
    let mut raw = 0_u64;
    for (at, byte) in bytes.iter().take(longest).enumerate() {
        raw |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed());
        }
    }
    None
}

/// Appends a signed number of either width.
pub(super) fn put(output: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while raw >= 0x80 {
        output.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    output.push(raw as u8);
}

/// Bytes that [`put`] writes.
pub(super) fn len(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    (64 - (raw | 1).leading_zeros() as usize).div_ceil(7)
}
