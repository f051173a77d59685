//! Pictures of measurements as inline SVG: bars for cases, curves for sweeps. Colours come from the
//! style sheet of the page by class, so that one picture serves light, dark and paper. Every mark
//! shows its numbers under the pointer. On the page each picture has two forms, for wide and for
//! narrow windows, so that its font keeps its size.

use maud::{Markup, PreEscaped, html};

use crate::method::statistics::Interval;

mod bars;
mod curves;
mod ratios;

pub(super) use bars::bars;
pub(super) use curves::curves;
pub(super) use ratios::{Ratio, ratios};

/// A case in a picture of bars.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) interval: Interval,
    /// True if the bar has the colour of the best case.
    pub(super) best: bool,
}

/// A case in a picture of curves, with points in the order of x.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) label: String,
    pub(super) points: Vec<(f64, Interval)>,
}

/// Quantity of an axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    /// Format of the numbers on the axis.
    pub(super) written: fn(f64) -> String,
}

/// Form of a picture for the width of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For wide windows: names to the left of their bars.
    Wide,
    /// For narrow windows such as a telephone: names above or below their bars.
    Narrow,
}

impl Form {
    fn width(self) -> f64 {
        match self {
            Self::Wide => WIDTH,
            Self::Narrow => 352.0,
        }
    }

    /// Maximum number of letters of a name. The picture cuts longer names, and the pointer shows
    /// the rest.
    fn longest(self) -> usize {
        match self {
            Self::Wide => 38,
            Self::Narrow => 42,
        }
    }

    /// Returns a name, cut to the available space.
    fn cut(self, label: &str) -> String {
        if label.chars().count() <= self.longest() {
            return label.to_owned();
        }
        label.chars().take(self.longest() - 1).chain(['…']).collect()
    }

    /// Width of the names to the left of their bars, in pixels.
    fn room<'a>(self, labels: impl Iterator<Item = &'a str>) -> f64 {
        let longest = labels.map(|label| label.chars().count().min(self.longest())).max().unwrap_or(0);
        (longest as f64 * LETTER).max(60.0)
    }
}

const WIDTH: f64 = 760.0;
/// Width of a letter in pixels: slightly more than the average, because fonts differ.
const LETTER: f64 = 8.0;

/// Returns a picture in both forms. The style sheet shows the form that fits the window.
pub(super) fn fitting(draw: impl Fn(Form) -> Markup) -> Markup {
    html! {
        div class="wide" { (draw(Form::Wide)) }
        div class="narrow" { (draw(Form::Narrow)) }
    }
}

/// Returns a picture as a document, with a title, style, background and the labels of its axis.
pub(super) fn alone(drawn: &Markup, axis: Option<&str>, style: &str) -> String {
    const MARGIN: f64 = 16.0;
    let drawn = &drawn.0;
    let height = drawn.split_once("viewBox=\"0 0 760 ").and_then(|(_, rest)| rest.split_once('"'));
    let height: f64 = height.and_then(|(height, _)| height.parse().ok()).unwrap_or(curves::HEIGHT);
    let above = if axis.is_some() { 22.0 } else { 0.0 };
    let (wide, high) = (WIDTH + 2.0 * MARGIN, height + above + 2.0 * MARGIN);
    let inside = drawn.replacen(
        "<svg ",
        &format!("<svg x=\"{MARGIN}\" y=\"{}\" width=\"{WIDTH}\" height=\"{height}\" ", MARGIN + above),
        1,
    );
    let page = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (wide) " " (high) } width=(wide) height=(high) {
            style { (PreEscaped(style)) }
            rect width="100%" height="100%" fill="var(--paper)" {}
            g class="picture" {
                @if let Some(axis) = axis { text class="axis-label" x=(MARGIN) y=(MARGIN + 10.0) { (axis) } }
            }
            (PreEscaped(inside))
        }
    };
    page.into_string() + "\n"
}

/// Line at the start of the bars, interrupted where names cross it.
fn axis(form: Form, x: f64, height: f64, middles: impl Iterator<Item = f64>) -> Markup {
    let pieces: Vec<(f64, f64)> = match form {
        Form::Wide => vec![(0.0, height)],
        Form::Narrow => middles.map(|middle| (middle - 9.0, middle + 9.0)).collect(),
    };
    html! {
        @for (from, to) in pieces { line class="axis" x1=(px(x)) x2=(px(x)) y1=(px(from)) y2=(px(to)) {} }
    }
}

/// Rounds to tenths of a pixel, so that the page stays small.
fn px(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
