//! Pictures of measurements as inline SVG: bars for cases, curves for sweeps. Colours come from the
//! page's style sheet by class, so that one picture serves light, dark and paper; every mark shows
//! its numbers under the pointer. On the page each picture has two forms, for wide windows and for
//! narrow ones, so that its letters keep their size.

use maud::{Markup, PreEscaped, html};

use crate::method::statistics::Interval;

mod bars;
mod curves;
mod ratios;

pub(super) use bars::bars;
pub(super) use curves::curves;
pub(super) use ratios::{Ratio, ratios};

/// One case in a picture of bars.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) interval: Interval,
    /// Drawn in the colour of the eye-catcher.
    pub(super) best: bool,
}

/// One case in a picture of curves; points in the order of x.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) label: String,
    pub(super) points: Vec<(f64, Interval)>,
}

/// Quantity on an axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    /// Format of its numbers.
    pub(super) written: fn(f64) -> String,
}

/// The windows that a picture is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Names to the left of their subjects.
    Wide,
    /// Names above or below it: a telephone.
    Narrow,
}

impl Form {
    fn width(self) -> f64 {
        match self {
            Self::Wide => WIDTH,
            Self::Narrow => 352.0,
        }
    }

    /// Longer names are cut; the pointer shows the rest.
    fn longest(self) -> usize {
        match self {
            Self::Wide => 38,
            Self::Narrow => 42,
        }
    }

    /// A name as far as there is room for it.
    fn cut(self, label: &str) -> String {
        if label.chars().count() <= self.longest() {
            return label.to_owned();
        }
        label.chars().take(self.longest() - 1).chain(['…']).collect()
    }

    /// The width of names to the left of their subjects.
    fn room<'a>(self, labels: impl Iterator<Item = &'a str>) -> f64 {
        let longest = labels.map(|label| label.chars().count().min(self.longest())).max().unwrap_or(0);
        (longest as f64 * LETTER).max(60.0)
    }
}

const WIDTH: f64 = 760.0;
/// A letter of the labels, on average and a little more: fonts differ.
const LETTER: f64 = 8.0;

/// A picture in both forms; the style sheet shows the one that fits the window.
pub(super) fn fitting(draw: impl Fn(Form) -> Markup) -> Markup {
    html! {
        div class="wide" { (draw(Form::Wide)) }
        div class="narrow" { (draw(Form::Narrow)) }
    }
}

/// A picture as a document: with a title, its style, a background, and the labels of its axis.
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

/// The line from which bars begin: whole, or in pieces if names interrupt it.
fn axis(form: Form, x: f64, height: f64, middles: impl Iterator<Item = f64>) -> Markup {
    let pieces: Vec<(f64, f64)> = match form {
        Form::Wide => vec![(0.0, height)],
        Form::Narrow => middles.map(|middle| (middle - 9.0, middle + 9.0)).collect(),
    };
    html! {
        @for (from, to) in pieces { line class="axis" x1=(px(x)) x2=(px(x)) y1=(px(from)) y2=(px(to)) {} }
    }
}

/// Tenths of a pixel are enough, and the page stays small.
fn px(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
