//! The picture that compares Levada with Kafka, drawn from the README's table of figures. `tidy`
//! compares the file with the table, and `cargo xtask picture` writes it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Path of the picture from the root.
pub(crate) const PICTURE: &str = "docs/pictures/beside-kafka.svg";

const WIDTH: f64 = 760.0;
const LEFT: f64 = 16.0;
/// Length of a bar of Kafka's. The number is to the right of it.
const BAR_WIDTH: f64 = 620.0;
const BAR_HEIGHT: f64 = 14.0;
const HEAD_HEIGHT: f64 = 44.0;
const ROW_HEIGHT: f64 = 66.0;

const STYLE: &str = "\
:root { --paper: #fcfcfa; --ink: #1c2126; --soft: #5d6872; --ours: #0a7d6c; --other: #8fa3b0; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181b; --ink: #e4e8ea; --soft: #98a4ad; --ours: #3cc4ad; --other: #5f7481; }
}
text { font: 13px system-ui, sans-serif; fill: var(--ink); dominant-baseline: central; }
.soft { fill: var(--soft); }
.number { font-variant-numeric: tabular-nums; }
.paper { fill: var(--paper); } .ours { fill: var(--ours); } .other { fill: var(--other); }
";

/// Writes the picture of the README's table.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).map_err(|error| format!("{}: {error}", readme.display()))?;
    let path = root.join(PICTURE);
    fs::write(&path, draw(&table(&text))?).map_err(|error| format!("{}: {error}", path.display()))
}

/// Rows of the README's table of figures, with their line numbers: work, Levada, Kafka.
pub(crate) fn table(readme: &str) -> Vec<(usize, Vec<&str>)> {
    const BEGIN: &str = "<!-- figures:";
    const END: &str = "<!-- end -->";
    let table = readme.lines().enumerate().skip_while(|(_, line)| !line.starts_with(BEGIN));
    let rows = table.take_while(|(_, line)| *line != END).filter(|(_, line)| line.starts_with('|'));
    // The head of the table and the line below it contain no figures.
    rows.skip(2).map(|(index, line)| (index + 1, cells(line))).collect()
}

/// Cells of a line of a table.
pub(crate) fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Draws two bars for each row; each row has its own scale.
///
/// # Errors
/// A row without two numbers.
pub(crate) fn draw(rows: &[(usize, Vec<&str>)]) -> Result<String, String> {
    let height = HEAD_HEIGHT + rows.len() as f64 * ROW_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>Levada compared with Apache Kafka: shorter is better</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    let legend = HEAD_HEIGHT / 2.0;
    bar(&mut svg, "ours", (LEFT, legend), BAR_HEIGHT);
    text(&mut svg, "number", (LEFT + 20.0, legend), "Levada");
    bar(&mut svg, "other", (LEFT + 90.0, legend), BAR_HEIGHT);
    text(&mut svg, "number", (LEFT + 110.0, legend), "Apache Kafka 4.3.1");
    text(&mut svg, "soft", (LEFT + 250.0, legend), "shorter is better; each pair has a scale of its own");
    for (index, (line, row)) in rows.iter().enumerate() {
        let top = HEAD_HEIGHT + index as f64 * ROW_HEIGHT;
        let values = match row[..] {
            [_, ours, other] => number(ours).zip(number(other)),
            _ => None,
        };
        let (ours, other) = values.ok_or_else(|| format!("README.md:{line}: a row has two numbers"))?;
        let largest = ours.max(other);
        text(&mut svg, "soft", (LEFT, top + 10.0), row[0]);
        for (value, class, said, at) in [(ours, "ours", row[1], 28.0), (other, "other", row[2], 46.0)] {
            let length = (value / largest * BAR_WIDTH).max(2.0);
            bar(&mut svg, class, (LEFT, top + at), length);
            text(&mut svg, "number", (LEFT + length + 8.0, top + at), said);
        }
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// The number of a cell such as `32 820 ms`.
fn number(cell: &str) -> Option<f64> {
    let is_space = |c: char| c.is_whitespace();
    let (digits, _unit) = cell.rsplit_once(is_space)?;
    digits.replace(is_space, "").parse().ok().filter(|value| *value > 0.0)
}

fn bar(svg: &mut String, class: &str, (x, middle): (f64, f64), length: f64) {
    let y = middle - BAR_HEIGHT / 2.0;
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>"
    );
}

fn text(svg: &mut String, class: &str, (x, y): (f64, f64), text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y}\">{text}</text>");
}
