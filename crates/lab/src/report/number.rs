//! Formatting of numbers: three significant digits with a unit.

/// Formats a number with three significant digits at most: `0.0653`, `2.31`, `1 240`, `1.3M`.
pub(crate) fn plain(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && !(1e-6..1e12).contains(&size) {
        return format!("{value:.1e}");
    }
    let large = [(1e9, "G"), (1e6, "M")].into_iter().find(|(least, _)| size >= *least);
    if let Some((least, letter)) = large {
        return format!("{}{letter}", digits(value / least));
    }
    if size >= 10_000.0 { grouped(value) } else { digits(value) }
}

/// Formats a number with its unit, if it has one.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    if unit.is_empty() { plain(value) } else { format!("{}\u{202f}{unit}", plain(value)) }
}

/// Formats a size in bytes: `64 KiB`.
pub(crate) fn size(bytes: f64) -> String {
    let units = [(1024.0 * 1024.0 * 1024.0, "GiB"), (1024.0 * 1024.0, "MiB"), (1024.0, "KiB")];
    match units.into_iter().find(|(least, _)| bytes >= *least) {
        Some((least, unit)) => format!("{}\u{202f}{unit}", digits(bytes / least)),
        None => format!("{}\u{202f}B", digits(bytes)),
    }
}

fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let behind_point = usize::try_from(3 - before_point).unwrap_or(0);
    let text = format!("{value:.behind_point$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Separates thousands by a narrow space.
fn grouped(value: f64) -> String {
    let whole = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(whole.len() + whole.len() / 3 * 3);
    if value < 0.0 {
        text.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}
