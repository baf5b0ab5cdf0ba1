//! A trace as a picture: a row for each task, its calls as bars, its sleeps grey, messages as lines.

use std::io::{self, Write};

use am_via_job::SLEEP;

use super::trace::{Trace, What};
use super::tree::times;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 60.0;
const ROW: f64 = 46.0;
const BAR: f64 = 22.0;
/// Maximum number of marks, of messages, and of each task's calls in the picture, to keep it readable. Of the calls, the longest are drawn.
const SHAPES_MAX: usize = 400;
/// Colours of calls, chosen by name.
const COLOURS: [&str; 6] = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#72b7b2", "#e45756"];

pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let ends = trace.tasks.iter().flatten().map(|step| step.at).max().unwrap_or(0).max(1);
    let x = |at: u64| LEFT + (WIDTH - LEFT - 8.0) * at as f64 / ends as f64;
    let height = ROW.mul_add(trace.tasks.len() as f64, 28.0);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">"
    )?;
    writeln!(out, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>")?;
    for (task, steps) in trace.tasks.iter().enumerate() {
        let top = ROW.mul_add(task as f64, 10.0);
        writeln!(out, "<text x=\"4\" y=\"{:.0}\">task {task}</text>", top + BAR * 0.7)?;
        if let Some(host) = trace.hosts.get(task) {
            writeln!(out, "<text x=\"4\" y=\"{:.0}\">{}</text>", top + BAR * 1.3, escaped(host))?;
        }
        let mut spans: Vec<(usize, u64)> =
            times(steps).into_iter().map(|(place, (took, _))| (place, took)).collect();
        spans.sort_by_key(|&(place, took)| (std::cmp::Reverse(took), place));
        for (place, took) in spans.into_iter().take(SHAPES_MAX) {
            let step = &steps[place];
            let (left, right) = (x(step.at), x(step.at + took));
            let name = escaped(&step.name);
            let (colour, inset) =
                if step.name == SLEEP { ("#cccccc", 5.0) } else { (colour(&step.name), 0.0) };
            let (y, tall, wide) = (top + inset, 2.0f64.mul_add(-inset, BAR), (right - left).max(0.5));
            writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{y:.0}\" width=\"{wide:.1}\" height=\"{tall:.0}\" fill=\"{colour}\"><title>{name} {:.1} us</title></rect>",
                took as f64 / 1e3
            )?;
            if inset == 0.0 && wide > 7.0 * step.name.len() as f64 {
                writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.0}\" fill=\"white\">{name}</text>",
                    left + 3.0,
                    top + BAR * 0.7
                )?;
            }
        }
        for step in steps.iter().filter(|step| matches!(step.what, What::Mark)).take(SHAPES_MAX) {
            writeln!(out, "<circle cx=\"{:.1}\" cy=\"{:.0}\" r=\"2\"/>", x(step.at), top + BAR + 4.0)?;
        }
    }
    for arrow in trace.messages.iter().take(SHAPES_MAX) {
        let middle = |task: u32| ROW.mul_add(f64::from(task), 10.0 + BAR / 2.0);
        let ((from, _, sent), (to, _, received)) = (arrow.from, arrow.to);
        writeln!(
            out,
            "<line x1=\"{:.1}\" y1=\"{:.0}\" x2=\"{:.1}\" y2=\"{:.0}\" stroke=\"black\" stroke-width=\"0.7\"/>",
            x(sent),
            middle(from),
            x(received),
            middle(to)
        )?;
    }
    let end = height - 6.0;
    writeln!(out, "<text x=\"{LEFT}\" y=\"{end:.0}\">0</text>")?;
    let last = WIDTH - 8.0;
    let text = format!("{:.1} us", ends as f64 / 1e3);
    writeln!(out, "<text x=\"{last}\" y=\"{end:.0}\" text-anchor=\"end\">{text}</text>\n</svg>")
}

fn colour(name: &str) -> &'static str {
    COLOURS[name.bytes().fold(0, |sum: usize, byte| sum * 31 % 1009 + usize::from(byte)) % COLOURS.len()]
}

fn escaped(name: &str) -> String {
    name.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_picture_has_a_bar_for_each_call_and_a_line_for_each_message() {
        let mut text = Vec::new();
        super::write(&super::super::trace::tests::two_tasks(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("<title>MPI_Send").count(), 2, "{text}");
        assert_eq!(text.matches("<line ").count(), 1, "{text}");
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }
}
