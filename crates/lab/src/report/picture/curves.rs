//! Curves over a common axis. The name of a curve is at its end, or below the axis if the end has
//! no space.

use maud::{Markup, html};

use super::{Axis, Curve, Form, px};
use crate::report::scale::Scale;

pub(super) const HEIGHT: f64 = 320.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = HEIGHT - 44.0;
/// Minimum distance between the names at the ends of curves, in pixels.
const LABEL_STEP: f64 = 16.0;
/// Minimum distance between numbers below the axis of a narrow picture, in pixels.
const TICK_STEP: f64 = 56.0;

/// Draws the curves of one picture.
pub(in crate::report) fn curves(curves: &[Curve], x: &Axis, y: &Axis, form: Form) -> Markup {
    let (left, right, height) = match form {
        Form::Wide => {
            (72.0, form.width() - form.room(curves.iter().map(|curve| &*curve.label)) - 16.0, HEIGHT)
        }
        Form::Narrow => (56.0, form.width() - 24.0, HEIGHT + 8.0 + curves.len() as f64 * LABEL_STEP),
    };
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let across = Scale::covering(points().map(|(x, _)| *x), left, right);
    let up = Scale::covering(points().flat_map(|(_, y)| [y.median, y.high]), BOTTOM, TOP);
    let names: Vec<(f64, f64)> = match form {
        Form::Wide => label_places(curves, up).into_iter().map(|place| (px(right + 10.0), place)).collect(),
        Form::Narrow => (0..curves.len()).map(|at| (left, HEIGHT + 8.0 + at as f64 * LABEL_STEP)).collect(),
    };
    html! {
        svg viewBox={ "0 0 " (form.width()) " " (height) } role="img" class="picture" {
            @for tick in up.ticks() {
                line class="grid" x1=(left) x2=(px(right)) y1=(px(up.px(tick))) y2=(px(up.px(tick))) {}
                text class="tick y" x=(left - 8.0) y=(px(up.px(tick))) { ((y.written)(tick)) }
            }
            @for tick in apart(across, form) {
                text class="tick x" x=(px(across.px(tick))) y=(BOTTOM + 18.0) { ((x.written)(tick)) }
            }
            text class="axis-label" x=(left) y=(HEIGHT - 6.0) { (x.label) }
            text class="axis-label" x=(if form == Form::Wide { left } else { 0.0 }) y="12" { (y.label) }
            @for (at, (curve, (name_x, name_y))) in curves.iter().zip(names).enumerate() {
                (drawn(curve, at, &Plot { across, up, x, y }))
                text class={ "end s" (at % SERIES) } x=(name_x) y=(px(name_y)) { (form.cut(&curve.label)) }
            }
        }
    }
}

/// Ticks of the horizontal axis. A narrow picture has only those with enough distance.
fn apart(across: Scale, form: Form) -> Vec<f64> {
    let mut free = f64::NEG_INFINITY;
    let mut ticks = across.ticks();
    ticks.retain(|tick| {
        let place = across.px(*tick);
        let is_apart = form == Form::Wide || place >= free;
        if is_apart {
            free = place + TICK_STEP;
        }
        is_apart
    });
    ticks
}

/// Number of colours for curves in the style sheet.
const SERIES: usize = 8;

/// Scales and axes of a picture of curves.
struct Plot<'a> {
    across: Scale,
    up: Scale,
    x: &'a Axis,
    y: &'a Axis,
}

fn drawn(curve: &Curve, at: usize, plot: &Plot<'_>) -> Markup {
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

/// Vertical positions of the names of curves, in the order of `curves`: at the ends of the curves,
/// moved apart if they would overlap.
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
