//! Pages that the server generates: their frame in both colour schemes, and sizes and times in
//! readable form.

use http::StatusCode;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

/// Style of all of these pages.
const STYLE: &str = ":root{color-scheme:light dark;--paper:#fbfcfb;--ink:#1a2024;--soft:#55616a;--line:#d3dadd;--accent:#08705f}\
@media(prefers-color-scheme:dark){:root{--paper:#13181b;--ink:#e5eaec;--soft:#a3b0b8;--line:#38434a;--accent:#45cdb5}}\
body{margin:2em auto;padding:0 1em;max-width:70em;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\
h1{font-size:1.5em;overflow-wrap:anywhere}a{color:var(--accent)}p{color:var(--soft)}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:.25em 0 .25em 1em;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}\
th:first-child,td:first-child{padding-left:0;text-align:left;white-space:normal;overflow-wrap:anywhere}\
thead th{font-weight:600}thead a{color:inherit;text-decoration:none}\
[aria-sort=ascending] a::after{content:\" \\25b2\"}[aria-sort=descending] a::after{content:\" \\25bc\"}\
@media(max-width:480px){body{margin:1em auto;font-size:14px}th,td{padding-left:.6em}}";

/// Maximum number of bytes of a page before and after its own text, without its title.
pub(crate) const FRAME_BYTES: usize = 2048;

/// A page with this title, which is also its heading.
pub(crate) fn page(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (content)
            }
        }
    }
}

/// The page of a status that is not about a file.
pub(crate) fn of_status(status: StatusCode) -> Markup {
    let title = status.to_string();
    page(&title, &html! { p { (explained(status)) } })
}

/// The meaning of a status for a reader of the page.
fn explained(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "The server has no file at this address.",
        StatusCode::FORBIDDEN => "The server may not read the file at this address.",
        StatusCode::SERVICE_UNAVAILABLE => "The server is busy. Load the page again later.",
        _ => "The server could not read the file. Its log has the reason.",
    }
}

/// Bytes with a binary unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    // 1023.95 would be shown as 1024.0.
    while value >= 1023.95 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1024.0, next);
    }
    format!("{value:.1} {unit}")
}

/// A time of this number of seconds since 1970, in UTC.
pub(crate) fn time(seconds: i64) -> String {
    match Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests;
