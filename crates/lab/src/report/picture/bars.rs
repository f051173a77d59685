//! Horizontal bars, each with its interval and its number.

use maud::{Markup, html};

use super::{Bar, Form, LETTER, axis, px};
use crate::method::statistics::Interval;
use crate::report::number;
use crate::report::scale::Scale;

const HEIGHT: f64 = 14.0;

/// Positions of a bar within its row, in pixels.
struct Row {
    form: Form,
    height: f64,
    /// Horizontal and vertical position of the name, and its class.
    label: (f64, f64, &'static str),
    /// Vertical centre of the bar.
    middle: f64,
}

impl Row {
    fn of(form: Form, zero: f64) -> Self {
        match form {
            Form::Wide => Self { form, height: 26.0, label: (zero - 8.0, 13.0, "label"), middle: 13.0 },
            Form::Narrow => Self { form, height: 40.0, label: (0.0, 10.0, "label above"), middle: 28.0 },
        }
    }
}

/// Draws bars in the given order.
pub(in crate::report) fn bars(bars: &[Bar], unit: &str, form: Form) -> Markup {
    let left = match form {
        Form::Wide => form.room(bars.iter().map(|bar| &*bar.label)) + 12.0,
        Form::Narrow => 1.0,
    };
    // After a bar there is space for a number with its unit.
    let number = (unit.chars().count() as f64 + 7.0) * LETTER;
    let right = form.width() - number.max(96.0);
    let largest = bars.iter().map(|bar| bar.interval.high.max(bar.interval.median)).fold(0.0, f64::max);
    let scale = Scale::from_zero(largest, left, right);
    let row = Row::of(form, left);
    let height = bars.len() as f64 * row.height + 8.0;
    let top = |at: usize| 4.0 + at as f64 * row.height;
    html! {
        svg viewBox={ "0 0 " (form.width()) " " (height) } role="img" class="picture" {
            @for (at, bar) in bars.iter().enumerate() {
                (one(bar, unit, scale, (&row, top(at))))
            }
            (axis(form, left, height, (0..bars.len()).map(|at| top(at) + row.middle)))
        }
    }
}

fn one(bar: &Bar, unit: &str, scale: Scale, (row, top): (&Row, f64)) -> Markup {
    let Interval { median, low, high, .. } = bar.interval;
    let (zero, end) = (scale.px(0.0), scale.px(median));
    let (low_px, high_px) = (scale.px(low), scale.px(high));
    let (middle, (label_x, label_y, label)) = (top + row.middle, row.label);
    let said = number::with_unit(median, unit);
    html! {
        g {
            title { (bar.label) ": " (said) " (" (number::with_unit(low, unit)) " to " (number::with_unit(high, unit)) ")" }
            text class=(label) x=(label_x) y=(top + label_y) { (row.form.cut(&bar.label)) }
            rect class=(if bar.best { "bar best" } else { "bar" }) x=(zero) y=(middle - HEIGHT / 2.0)
                width=(px((end - zero).max(1.0))) height=(HEIGHT) rx="2" {}
            path class="whisker" d={ "M" (px(low_px)) " " (middle) "H" (px(high_px)) "M" (px(low_px)) " " (middle - 3.0) "v6M" (px(high_px)) " " (middle - 3.0) "v6" } {}
            text class="number" x=(px(high_px.max(end) + 8.0)) y=(middle) { (said) }
        }
    }
}
