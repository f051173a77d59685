//! Bars to both sides of a line, which show the factor by which one case is better or worse than
//! another.

use maud::{Markup, html};

use super::{Form, axis, px};
use crate::method::statistics::Interval;
use crate::report::number;

/// Factor by which a case is better than another: 2 is twice as good, 0.5 half as good.
#[derive(Clone, Debug)]
pub(in crate::report) struct Ratio {
    pub(in crate::report) label: String,
    pub(in crate::report) interval: Interval,
}

const HEIGHT: f64 = 14.0;
/// Space for a number next to a bar, in pixels.
const NUMBER: f64 = 64.0;
const HEAD: f64 = 24.0;

/// Draws bars from a line outwards, to the right for better cases. Equal steps are equal factors.
pub(in crate::report) fn ratios(ratios: &[Ratio], (worse, better): (&str, &str), form: Form) -> Markup {
    let (left, row, label_y, middle) = match form {
        Form::Wide => (form.room(ratios.iter().map(|one| &*one.label)) + 12.0, 26.0, 13.0, 13.0),
        Form::Narrow => (0.0, 40.0, 10.0, 28.0),
    };
    let right = form.width();
    let decades = |ratio: &Ratio| ratio.interval.median.max(f64::MIN_POSITIVE).log10();
    let most = ratios.iter().map(decades).fold(0.0, f64::max);
    let least = ratios.iter().map(decades).fold(0.0, f64::min);
    // Numbers are outside the bars.
    let (from, to) = (if least < 0.0 { left + NUMBER } else { left + 1.0 }, right - NUMBER);
    let unit = (to - from) / (most - least).max(0.1);
    let line = from - least * unit;
    let height = HEAD + ratios.len() as f64 * row + 4.0;
    let label_x = if form == Form::Wide { left - 8.0 } else { 0.0 };
    let label = if form == Form::Wide { "label" } else { "label above" };
    html! {
        svg viewBox={ "0 0 " (form.width()) " " (px(height)) } role="img" class="picture" {
            @if least < 0.0 { text class="tick y" x=(px(line - 8.0)) y="10" { (worse) } }
            text class="tick beside" x=(px(line + 8.0)) y="10" { (better) }
            @for (at, ratio) in ratios.iter().enumerate() {
                @let (top, end) = (HEAD + at as f64 * row, line + decades(ratio) * unit);
                @let (low, high) = (line.min(end), line.max(end));
                g {
                    title { (ratio.label) ": " (said(ratio)) " (" (number::plain(ratio.interval.low)) " to " (number::plain(ratio.interval.high)) ")" }
                    text class=(label) x=(label_x) y=(px(top + label_y)) { (form.cut(&ratio.label)) }
                    rect class=(if end >= line { "bar best" } else { "bar" }) x=(px(low)) y=(px(top + middle - HEIGHT / 2.0))
                        width=(px((high - low).max(1.0))) height=(HEIGHT) rx="2" {}
                    text class=(if end >= line { "number" } else { "number before" })
                        x=(px(if end >= line { high + 8.0 } else { low - 8.0 })) y=(px(top + middle)) { (said(ratio)) }
                }
            }
            (axis(form, line, height, (0..ratios.len()).map(|at| HEAD + at as f64 * row + middle)))
        }
    }
}

fn said(ratio: &Ratio) -> String {
    format!("{}×", number::plain(ratio.interval.median))
}
