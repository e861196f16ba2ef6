//! Histogram beside the normal density, and quantiles beside the diagonal, one row for each step: SVG written by hand.

use becalm::laboratory::Step;
use becalm::params::TfheParams;
use std::fmt::Write as _;

/// Width of one panel, its frame included.
const WIDE: f64 = 340.0;
/// Its height.
const HIGH: f64 = 190.0;
/// From a panel's edge to its axes.
const MARGIN: f64 = 30.0;
/// Standard deviations shown.
const REACH: f64 = 4.5;
const BINS: usize = 45;
const QUANTILES: usize = 199;

/// The drawing.
pub fn svg(params: &TfheParams, steps: &[Step]) -> String {
    let (width, height) = (2.0 * WIDE, HIGH * steps.len() as f64 + MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"18\" font-size=\"13\">{}, n = {}: samples in standard deviations of the formula</text>\n",
        params.name, params.lwe_dimension
    );
    for (i, step) in steps.iter().enumerate() {
        let top = MARGIN + HIGH * i as f64;
        histogram(&mut out, step, top);
        quantiles(&mut out, step, top);
    }
    out.push_str("</svg>\n");
    out
}

/// Axes with ticks at whole standard deviations, and a title.
fn frame(out: &mut String, left: f64, top: f64, title: &str) {
    let (w, h) = (WIDE - 2.0 * MARGIN, HIGH - 2.0 * MARGIN);
    let (x, y) = (left + MARGIN, top + MARGIN);
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"none\" stroke=\"#999\"/>\
         <text x=\"{x}\" y=\"{:.1}\">{title}</text>",
        y - 6.0
    );
    for z in -4..=4 {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{z}</text>",
            across(left, f64::from(z)),
            y + h + 13.0
        );
    }
}

/// Where z standard deviations lie from left to right.
fn across(left: f64, z: f64) -> f64 {
    left + MARGIN + (z + REACH) / (2.0 * REACH) * (WIDE - 2.0 * MARGIN)
}

/// Where a share of the panel's height lies.
fn up(top: f64, share: f64) -> f64 {
    top + HIGH - MARGIN - share * (HIGH - 2.0 * MARGIN)
}

fn histogram(out: &mut String, step: &Step, top: f64) {
    frame(out, 0.0, top, step.name);
    let bin = 2.0 * REACH / BINS as f64;
    let all = step.measured.samples.max(1) as f64;
    // The normal density has its peak at four fifths of the height.
    let height = |density: f64| up(top, (density * 2.0).min(1.0));
    for (i, count) in step.histogram(REACH, BINS).into_iter().enumerate() {
        let (x, y) = (across(0.0, -REACH + i as f64 * bin), height(count as f64 / all / bin));
        let (w, h) = (across(0.0, bin) - across(0.0, 0.0), up(top, 0.0) - y);
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"#9ecae1\"/>"
        );
    }
    let density = |z: f64| (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let curve = (0..=90).map(|i| -REACH + f64::from(i) / 10.0);
    line(out, curve.map(|z| (across(0.0, z), height(density(z)))), "#d7301f");
}

fn quantiles(out: &mut String, step: &Step, top: f64) {
    frame(out, WIDE, top, "quantiles: normal →, samples ↑");
    let point = |(z, sample): (f64, f64)| {
        (across(WIDE, z), up(top, ((sample + REACH) / (2.0 * REACH)).clamp(0.0, 1.0)))
    };
    line(out, [(-REACH, -REACH), (REACH, REACH)].into_iter().map(point), "#d7301f");
    for (x, y) in step.quantiles(QUANTILES).into_iter().map(point) {
        let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.3\" fill=\"#08519c\"/>");
    }
}

fn line(out: &mut String, points: impl Iterator<Item = (f64, f64)>, colour: &str) {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\"/>",
        points.join(" ")
    );
}
