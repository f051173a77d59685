//! Pictures of measurements as inline SVG: bars for cases, curves for sweeps. Colours come from the
//! page's style sheet by class, so that one picture serves light, dark and paper; every mark says
//! its numbers when pointed at.

use maud::{Markup, PreEscaped, html};

use super::number;
use super::scale::Scale;
use crate::method::statistics::Interval;

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

const WIDTH: f64 = 760.0;
/// A letter of the labels, on average and a little more: fonts differ.
const LETTER: f64 = 8.0;
/// Longer names are cut; pointing at them tells the rest.
const LONGEST: usize = 38;

const BAR_ROW: f64 = 26.0;
const BAR_HEIGHT: f64 = 14.0;

/// Horizontal bars in the given order, each with its interval and its number.
pub(super) fn bars(bars: &[Bar], unit: &str) -> Markup {
    let left = room(bars.iter().map(|bar| &*bar.label)) + 12.0;
    let right = WIDTH - 96.0;
    let largest = bars.iter().map(|bar| bar.interval.high.max(bar.interval.median)).fold(0.0, f64::max);
    let scale = Scale::from_zero(largest, left, right);
    let height = bars.len() as f64 * BAR_ROW + 8.0;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" class="picture" {
            @for (at, bar) in bars.iter().enumerate() {
                (bar_row(bar, unit, scale, 4.0 + at as f64 * BAR_ROW))
            }
            line class="axis" x1=(left) x2=(left) y1="0" y2=(height) {}
        }
    }
}

fn bar_row(bar: &Bar, unit: &str, scale: Scale, top: f64) -> Markup {
    let Interval { median, low, high, .. } = bar.interval;
    let (zero, end) = (scale.px(0.0), scale.px(median));
    let (low_px, high_px) = (scale.px(low), scale.px(high));
    let middle = top + BAR_ROW / 2.0;
    let said = number::with_unit(median, unit);
    html! {
        g {
            title { (bar.label) ": " (said) " (" (number::with_unit(low, unit)) " to " (number::with_unit(high, unit)) ")" }
            text class="label" x=(zero - 8.0) y=(middle) { (cut(&bar.label)) }
            rect class=(if bar.best { "bar best" } else { "bar" }) x=(zero) y=(middle - BAR_HEIGHT / 2.0)
                width=(px((end - zero).max(1.0))) height=(BAR_HEIGHT) rx="2" {}
            path class="whisker" d={ "M" (px(low_px)) " " (middle) "H" (px(high_px)) "M" (px(low_px)) " " (middle - 3.0) "v6M" (px(high_px)) " " (middle - 3.0) "v6" } {}
            text class="number" x=(px(high_px.max(end) + 8.0)) y=(middle) { (said) }
        }
    }
}

/// A picture as a document: with a name for what it is, its style, paper behind it, and what its
/// axis shows above it.
pub(super) fn alone(drawn: &Markup, axis: Option<&str>, style: &str) -> String {
    const MARGIN: f64 = 16.0;
    let drawn = &drawn.0;
    let height = drawn.split_once("viewBox=\"0 0 760 ").and_then(|(_, rest)| rest.split_once('"'));
    let height: f64 = height.and_then(|(height, _)| height.parse().ok()).unwrap_or(CURVES_HEIGHT);
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

const CURVES_HEIGHT: f64 = 320.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = CURVES_HEIGHT - 44.0;
const LEFT: f64 = 72.0;
/// Labels at the ends of curves keep this distance.
const LABEL_STEP: f64 = 16.0;

/// Curves over a common axis, each named at its end.
pub(super) fn curves(curves: &[Curve], x: &Axis, y: &Axis) -> Markup {
    let right = WIDTH - room(curves.iter().map(|curve| &*curve.label)) - 16.0;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let across = Scale::covering(points().map(|(x, _)| *x), LEFT, right);
    let up = Scale::covering(points().flat_map(|(_, y)| [y.median, y.high]), BOTTOM, TOP);
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (CURVES_HEIGHT) } role="img" class="picture" {
            @for tick in up.ticks() {
                line class="grid" x1=(LEFT) x2=(px(right)) y1=(px(up.px(tick))) y2=(px(up.px(tick))) {}
                text class="tick y" x=(LEFT - 8.0) y=(px(up.px(tick))) { ((y.written)(tick)) }
            }
            @for tick in across.ticks() {
                text class="tick x" x=(px(across.px(tick))) y=(BOTTOM + 18.0) { ((x.written)(tick)) }
            }
            text class="axis-label" x=(LEFT) y=(CURVES_HEIGHT - 6.0) { (x.label) }
            text class="axis-label" x=(LEFT) y="12" { (y.label) }
            @for (at, (curve, label_y)) in curves.iter().zip(label_places(curves, up)).enumerate() {
                (drawn_curve(curve, at, &Plot { across, up, x, y }))
                text class={ "end s" (at % SERIES) } x=(px(right + 10.0)) y=(px(label_y)) { (cut(&curve.label)) }
            }
        }
    }
}

/// Colours that the style sheet has for curves.
pub(super) const SERIES: usize = 8;

/// The scales and axes that curves are drawn on.
struct Plot<'a> {
    across: Scale,
    up: Scale,
    x: &'a Axis,
    y: &'a Axis,
}

fn drawn_curve(curve: &Curve, at: usize, plot: &Plot<'_>) -> Markup {
    let Plot { across, up, x: x_axis, y: y_axis } = *plot;
    let place = |x: f64, y: f64| format!("{},{}", px(across.px(x)), px(up.px(y)));
    let line: Vec<_> = curve.points.iter().map(|(x, y)| place(*x, y.median)).collect();
    let lower = curve.points.iter().map(|(x, y)| place(*x, y.low));
    let upper = curve.points.iter().rev().map(|(x, y)| place(*x, y.high));
    let band: Vec<_> = lower.chain(upper).collect();
    html! {
        g class={ "curve s" (at % SERIES) } {
            polygon class="band" points=(band.join(" ")) {}
            polyline class="line" points=(line.join(" ")) {}
            @for (x, y) in &curve.points {
                circle class="dot" cx=(px(across.px(*x))) cy=(px(up.px(y.median))) r="3" {
                    title { (curve.label) " at " ((x_axis.written)(*x)) ": " ((y_axis.written)(y.median)) }
                }
            }
        }
    }
}

/// Where the names of the curves go: at their ends, pushed apart where they would overlap. In the
/// order of `curves`.
fn label_places(curves: &[Curve], up: Scale) -> Vec<f64> {
    let ends = curves.iter().map(|curve| curve.points.last().map_or(BOTTOM, |(_, y)| up.px(y.median)));
    let mut order: Vec<(usize, f64)> = ends.enumerate().collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut least = TOP;
    for (_, place) in &mut order {
        *place = place.max(least);
        least = *place + LABEL_STEP;
    }
    let mut most = BOTTOM.max(least - LABEL_STEP);
    let overrun = (most - BOTTOM).max(0.0);
    most = BOTTOM;
    if overrun > 0.0 {
        for (_, place) in order.iter_mut().rev() {
            *place = place.min(most);
            most = *place - LABEL_STEP;
        }
    }
    let mut places = vec![0.0; curves.len()];
    for (at, place) in order {
        places[at] = place;
    }
    places
}

/// The room that names take.
fn room<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    let longest = labels.map(|label| label.chars().count().min(LONGEST)).max().unwrap_or(0);
    (longest as f64 * LETTER).max(60.0)
}

/// A name as far as there is room for it.
fn cut(label: &str) -> String {
    if label.chars().count() <= LONGEST {
        return label.to_owned();
    }
    label.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// Tenths of a pixel are enough, and the page stays small.
fn px(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
