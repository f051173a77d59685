//! Decimal numbers of Avro: an integer in bytes, the highest first, and a number of decimals.

/// Digits that an integer of 128 bits has at least.
pub(super) const DIGITS_MAX: u64 = 38;

/// The number in these bytes; none if it has more than 128 bits.
pub(super) fn shown(bytes: &[u8], scale: u32) -> Option<String> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
    let mut full = [sign; 16];
    full[16 - bytes.len()..].copy_from_slice(bytes);
    let number = i128::from_be_bytes(full);
    let mut digits = number.unsigned_abs().to_string();
    let scale = scale as usize;
    if scale > 0 {
        if digits.len() <= scale {
            digits.insert_str(0, &"0".repeat(scale + 1 - digits.len()));
        }
        digits.insert(digits.len() - scale, '.');
    }
    Some(if number < 0 { format!("-{digits}") } else { digits })
}

/// The integer of a number in decimal notation, in the fewest bytes, or in `size` bytes. None if
/// the text is no such number, has more decimals, or does not fit.
pub(super) fn bytes(text: &str, scale: u32, size: Option<usize>) -> Option<Vec<u8>> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let part = part.trim_end_matches('0');
    let is_number =
        !whole.is_empty() && [whole, part].iter().all(|one| one.bytes().all(|byte| byte.is_ascii_digit()));
    let missing = (scale as usize).checked_sub(part.len())?;
    if !is_number || missing as u64 > DIGITS_MAX {
        return None;
    }
    let digits = format!("{whole}{part}{}", "0".repeat(missing));
    let number = digits.parse::<i128>().ok()?.checked_mul(sign)?;
    let full = number.to_be_bytes();
    let filler = if number < 0 { 0xff } else { 0 };
    let is_needed = |at: usize| full[at] != filler || (full[at + 1] ^ filler) & 0x80 != 0;
    let first = (0..15).find(|at| is_needed(*at)).unwrap_or(15);
    let shortest = &full[first..];
    let filling = size.unwrap_or(shortest.len()).checked_sub(shortest.len())?;
    Some([&vec![filler; filling][..], shortest].concat())
}
