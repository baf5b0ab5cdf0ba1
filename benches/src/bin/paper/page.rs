//! The page: each figure with its curves or its table, the paper's result, ours, and the commands.

use std::error::Error;
use std::fmt::Write as _;
use std::ops::Range;

use am_examples::Failure;
use plotters::prelude::*;

use crate::curve::bytes;
use crate::figure::{Along, Drawn, Form};
use crate::job::Effort;

const SIZE: (u32, u32) = (860, 460);
/// The legend above a chart: number of entries in a row, width of an entry, height of a row, and position of the first entry.
const LEGEND_COLUMNS: usize = 3;
const LEGEND_WIDTH: usize = 262;
const LEGEND_ROW: usize = 22;
const LEGEND_AT: (usize, usize) = (64, 8);
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0xd6, 0x27, 0x28),
    RGBColor(0x2c, 0xa0, 0x2c),
    RGBColor(0x94, 0x67, 0xbd),
    RGBColor(0xff, 0x7f, 0x0e),
];
const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1f2328;background:#fff}\
                     table{border-collapse:collapse}td,th{border:1px solid #d0d7de;padding:.2em .6em;text-align:right}\
                     th:first-child,td:first-child{text-align:left}code{font-size:13px}pre{overflow-x:auto}\
                     svg{max-width:100%;height:auto}section{margin-top:3em}.source{color:#59636e}";

/// A self-contained page for a browser.
pub(crate) fn page(figures: &[Drawn<'_>], effort: &Effort) -> Result<String, Failure> {
    let mut text = String::new();
    let mut contents = String::new();
    for figure in figures {
        let name = figure.figure.name;
        let _ = writeln!(
            contents,
            "<li><a href=\"#{name}\">{}</a>: {}",
            figure.figure.source, figure.figure.title
        );
        section(&mut text, figure, effort)
            .map_err(|error| Failure::Library { fault: "this program", error })?;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>The papers' figures, from our own runs</title><style>{STYLE}</style>\n\
         <h1>The papers' figures, from our own runs</h1>\n\
         <p>Measured on {} ({processors} processors), {} round(s) of every job in turn. A point is the median of the rounds (of a kernel the best one) of the best \
         batch of each; each task is bound to a processor. A message is the same from one round trip to the next except its last byte, which is \
         checked. Scales are logarithmic. The sentence after \"Here:\" is computed from the numbers of this run. ToCL, the \
         fifth paper, shows no measurements.</p>\n\
         <ol>\n{contents}</ol>\n{text}</html>\n",
        escaped(&processor()),
        effort.rounds
    ))
}

fn section(text: &mut String, drawn: &Drawn<'_>, effort: &Effort) -> Result<(), Box<dyn Error>> {
    let figure = drawn.figure;
    writeln!(text, "<section id=\"{}\"><h2>{}</h2>", figure.name, escaped(figure.title))?;
    writeln!(text, "<p class=source>{}. <code>{}</code></p>", escaped(figure.source), figure.command())?;
    writeln!(text, "<p><b>The paper:</b> {}</p>", escaped(figure.paper))?;
    writeln!(text, "<p><b>Here:</b> {}</p>", escaped(&drawn.here))?;
    let is_chart = figure.form == Form::Chart;
    if is_chart {
        text.push_str(&chart(drawn)?);
    }
    writeln!(
        text,
        "<details{}><summary>Numbers and commands</summary>",
        if is_chart { "" } else { " open" }
    )?;
    table(text, drawn)?;
    text.push_str("<pre>");
    for series in &figure.series {
        writeln!(text, "{}", escaped(series.label))?;
        for job in &series.jobs {
            writeln!(text, "    {}", escaped(&job.command(effort)))?;
        }
    }
    writeln!(text, "</pre></details></section>")?;
    Ok(())
}

fn table(text: &mut String, drawn: &Drawn<'_>) -> std::fmt::Result {
    let figure = drawn.figure;
    writeln!(text, "<table><tr><th>{}; {}", figure.along.description(), figure.quantity.description())?;
    drawn.curves.iter().try_for_each(|curve| write!(text, "<th>{}", escaped(curve.label)))?;
    let points = drawn.curves.first().map_or(&[][..], |curve| &curve.points);
    for point in points {
        write!(text, "\n<tr><td>{}", figure.along.name(point.x))?;
        for curve in &drawn.curves {
            match curve.points.iter().find(|other| other.x == point.x) {
                Some(found) => write!(text, "<td>{}", digits(figure.quantity.value(*found)))?,
                None => write!(text, "<td>")?,
            }
        }
    }
    writeln!(text, "</table>")
}

/// A number with three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The curves, over logarithmic axes.
fn chart(drawn: &Drawn<'_>) -> Result<String, Box<dyn Error>> {
    let figure = drawn.figure;
    let curves: Vec<(&str, Vec<(f64, f64)>)> = drawn
        .curves
        .iter()
        .map(|curve| {
            (curve.label, curve.points.iter().map(|point| (point.x, figure.quantity.value(*point))).collect())
        })
        .collect();
    let all = || curves.iter().flat_map(|(_, points)| points);
    let (across, up) = (range(all().map(|point| point.0), 1.0), range(all().map(|point| point.1), 1.5));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        // The legend lies above the plot, because no corner is free of curves in all charts.
        let rows = curves.len().div_ceil(LEGEND_COLUMNS);
        let (legend, plot) = area.split_vertically(u32::try_from(LEGEND_AT.1 + rows * LEGEND_ROW)?);
        let mut chart = ChartBuilder::on(&plot)
            .margin(14)
            .margin_right(36)
            .x_label_area_size(46)
            .y_label_area_size(78)
            .build_cartesian_2d(across.log_scale().base(2.0), up.log_scale())?;
        let description = figure.quantity.description();
        chart
            .configure_mesh()
            .x_desc(figure.along.description())
            .y_desc(description)
            .x_labels(12)
            .x_label_formatter(&|x| {
                if matches!(figure.along, Along::Bytes) { bytes(*x) } else { figure.along.name(*x) }
            })
            .y_label_formatter(&|y| ((y * 1e6).round() / 1e6).to_string())
            .light_line_style(WHITE)
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 15))
            .draw()?;
        for (number, ((label, points), colour)) in curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let style = colour.stroke_width(2);
            chart.draw_series([PathElement::new(points.clone(), style)])?;
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
            let x = i32::try_from(LEGEND_AT.0 + number % LEGEND_COLUMNS * LEGEND_WIDTH)?;
            let y = i32::try_from(LEGEND_AT.1 + number / LEGEND_COLUMNS * LEGEND_ROW)?;
            legend.draw(&PathElement::new([(x, y + 8), (x + 22, y + 8)], style))?;
            legend.draw(&Text::new(*label, (x + 28, y), ("sans-serif", 14)))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// The range from the smallest to the largest of `values`, extended by the factor `beyond` on both sides.
fn range(values: impl Iterator<Item = f64>, beyond: f64) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    low / beyond..(high * beyond).max(low * 1.01)
}

/// The system's name of its processors.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| "this machine".to_owned(), |(_, name)| name.trim().to_owned())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
