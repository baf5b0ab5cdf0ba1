//! The page of `paper`: a few figures of each form from real jobs, and the whole page.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ALL_FIGURES: [&str; 17] = [
    "lapi13",
    "lapi14",
    "lapi15",
    "lapi16",
    "lapi17",
    "lapi18",
    "lapi18-computation",
    "lapi-table3",
    "thesis4.2",
    "thesis6.1",
    "thesis6.2",
    "thesis6.3",
    "thesis6.7",
    "mpich2-6",
    "mpich2-barrier",
    "portals-expected",
    "portals-unexpected",
];
const FIGURES: [&str; 5] = ["lapi15", "lapi18-computation", "thesis6.2", "mpich2-6", "mpich2-barrier"];

fn paper(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_paper")).args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "paper {arguments:?} ended with {}:\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("it prints text")
}

fn list<'a>(value: &'a Value, what: &str) -> &'a [Value] {
    let list = value[what].as_array().unwrap_or_else(|| panic!("{what} is no list in {value}"));
    assert!(!list.is_empty(), "{what} is empty in {value}");
    list
}

fn text<'a>(value: &'a Value, what: &str) -> &'a str {
    let text = value[what].as_str().unwrap_or_else(|| panic!("{what} is no text in {value}"));
    assert!(text.len() > 10, "{what} says nothing in {value}");
    text
}

/// Checks that the legend of a chart lies above its curves.
fn check_legend(svg: &str) {
    let value = |element: &str, name: &str| -> Option<f64> {
        element.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0.parse().ok()
    };
    let highest =
        svg.split("<circle").skip(1).filter_map(|circle| value(circle, "cy")).fold(f64::INFINITY, f64::min);
    // Only the texts of the legend are anchored at their start.
    let legend = svg.split("<text").skip(1).filter(|text| text.contains("text-anchor=\"start\""));
    let ends: Vec<f64> = legend.filter_map(|text| value(text, "y")).map(|y| y + 16.0).collect();
    assert!(ends.len() > 1, "no legend");
    assert!(ends.iter().all(|&end| end < highest), "{ends:?} beside a curve that begins at {highest}");
}

#[test]
fn a_page_has_the_numbers_the_commands_and_the_sentences_of_its_figures() {
    let folder = std::env::temp_dir().join(format!("am-paper-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (page, json) = (folder.join("page.html"), folder.join("figures.json"));
    let (page_name, json_name) = (page.to_str().unwrap(), json.to_str().unwrap());
    let only = FIGURES.join(",");
    let said = paper(&["--quick", "--rounds", "1", "--only", &only, "--out", page_name, "--json", json_name]);
    assert!(said.lines().any(|line| Path::new(line) == page), "the output does not name the page:\n{said}");

    let html = std::fs::read_to_string(&page).unwrap();
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let names: Vec<&str> =
        figures.as_array().unwrap().iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    assert_eq!(names, FIGURES);
    // All are charts except the remaining computation and the table of barriers.
    assert_eq!(html.matches("<svg").count(), FIGURES.len() - 2);
    html.split("<svg").skip(1).for_each(check_legend);
    assert!(!html.contains("NaN"), "a number is missing on the page");
    for figure in figures.as_array().unwrap() {
        for what in ["source", "title", "command", "paper", "here"] {
            let text = text(figure, what).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            assert!(html.contains(&text), "the page does not say: {text}");
        }
        assert!(
            text(figure, "here").contains(|letter: char| letter.is_ascii_digit()),
            "no number in {figure}"
        );
        for series in list(figure, "series") {
            list(series, "commands");
            let points = list(series, "points");
            assert!(points.len() > 1, "a curve of one point: {series}");
            for point in points {
                let [x, low, median, high] =
                    ["x", "low", "median", "high"].map(|what| point[what].as_f64().unwrap());
                assert!(x >= 1.0 && low > 0.0 && low <= median && median <= high, "{point} in {series}");
            }
            assert!(points.is_sorted_by_key(|point| point["x"].as_f64().unwrap().to_bits()), "{series}");
        }
    }
}

/// Every variable that a figure sets must be a setting, and `--only` must accept the names of the list.
#[test]
fn the_list_names_every_figure_and_its_jobs() {
    let all = paper(&["--list"]);
    let names: Vec<&str> =
        all.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ALL_FIGURES);
    for name in &names {
        let one = paper(&["--list", "--only", name]);
        assert!(one.starts_with(name) && one.contains("cargo amrun -n"), "{one}");
    }
}

#[test]
fn an_unknown_figure_is_refused_with_the_names_of_all() {
    let output = Command::new(env!("CARGO_BIN_EXE_paper")).args(["--only", "lapi99"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("lapi99") && errors.contains("thesis6.7"), "{errors}");
}
