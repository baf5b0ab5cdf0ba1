//! The ratios as a picture: one bar for each row, on a logarithmic scale, with the project's marks.

use std::fmt::Write as _;

use crate::marks::Kind;
use crate::table::Table;

const ROW: usize = 18;
const LABELS: f64 = 210.0;
const WIDTH: f64 = 900.0;
/// The scale goes from 2^-DOUBLINGS to 2^DOUBLINGS.
const DOUBLINGS: f64 = 4.0;

/// The x coordinate of a ratio. Rates are inverted, so that left is always better.
fn at(kind: Kind, ratio: f64) -> f64 {
    let ratio = if kind == Kind::Rate { 1.0 / ratio } else { ratio };
    let part = (ratio.log2() + DOUBLINGS) / (2.0 * DOUBLINGS);
    LABELS + part.clamp(0.0, 1.0) * (WIDTH - LABELS)
}

/// A self-contained page for a browser.
pub(crate) fn page(table: &Table) -> String {
    format!(
        "<!doctype html><meta charset=utf-8><title>am-via compared with other MPI libraries</title>\n\
         <p style=\"font:14px sans-serif\">Each bar is the ratio of ours to the best peer; left of the line ours is better (rates are inverted). \
         Dashes: the mark. Point at a bar for its figures.</p>\n{}",
        picture(table)
    )
}

/// The bars as an SVG picture.
pub(crate) fn picture(table: &Table) -> String {
    let mut rows = String::new();
    let mut count = 0;
    let one = at(Kind::Less, 1.0);
    for ((name, bytes), standing) in table.standings() {
        let Some((ratio, peer)) = &standing.ratio else { continue };
        let y = (count + 2) * ROW;
        count += 1;
        let end = at(standing.kind, *ratio);
        let (from, width) = (end.min(one), (end - one).abs().max(1.0));
        let colour = match standing.verdict() {
            "aim" => "#1a7f37",
            "reached" => "#57ab5a",
            "short" => "#cf6a32",
            _ => "#8c959f",
        };
        let _ = writeln!(rows, r#"<text x="0" y="{}">{name} {bytes}</text>"#, y + 13);
        let _ = writeln!(
            rows,
            r#"<rect x="{from:.1}" y="{}" width="{width:.1}" height="{}" fill="{colour}"><title>{ratio:.2} x {peer} {}</title></rect>"#,
            y + 3,
            ROW - 6,
            standing.verdict()
        );
        if let Some(mark) = standing.mark {
            let x = at(standing.kind, mark.reach);
            let _ =
                writeln!(rows, r##"<path d="M{x:.1} {y}v{ROW}" stroke="#24292f" stroke-dasharray="3 2"/>"##);
        }
    }
    let height = (count + 3) * ROW;
    let mut scale = String::new();
    for (label, ratio) in
        [("1/8", 0.125), ("1/4", 0.25), ("1/2", 0.5), ("best peer", 1.0), ("2", 2.0), ("4", 4.0), ("8", 8.0)]
    {
        let x = at(Kind::Less, ratio);
        let _ = writeln!(
            scale,
            r##"<path d="M{x:.1} {ROW}V{height}" stroke="#d0d7de"/><text x="{x:.1}" y="13" text-anchor="middle">{label}</text>"##
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{scale}{rows}</svg>\n"
    )
}
