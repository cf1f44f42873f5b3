//! The screen as an animated SVG: text appears when it came, and the picture begins anew a while after
//! the last of it. A viewer that does not animate shows the last state.

use super::screen::{COLUMNS, Span};
use std::fmt::Write;

/// Pixels of a character, and around the text.
const WIDTH: f64 = 8.4;
const HEIGHT: usize = 20;
const MARGIN: usize = 20;
/// Seconds that the last state stays.
const PAUSE: f64 = 4.0;

/// The picture of a screen.
pub(super) fn animation(lines: &[Vec<Span>]) -> String {
    let width = (COLUMNS as f64 * WIDTH) as usize + 2 * MARGIN;
    let height = lines.len() * HEIGHT + 2 * MARGIN;
    let last = lines.iter().flatten().map(|span| span.seconds).fold(0.0, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16181d\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"14\" fill=\"#d8dee9\">\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let y = MARGIN + row * HEIGHT + 14;
        for span in line.iter().filter(|span| !span.text.trim().is_empty()) {
            svg.push_str(&text(span, y, last + PAUSE));
        }
    }
    svg + "</g>\n</svg>\n"
}

/// One `text` element, without the spaces around its words, of an animation of `duration` seconds.
fn text(span: &Span, y: usize, duration: f64) -> String {
    let words = span.text.trim();
    let spaces = span.text.chars().take_while(|c| c.is_whitespace()).count();
    let x = MARGIN as f64 + (span.column + spaces) as f64 * WIDTH;
    let length = words.chars().count() as f64 * WIDTH;
    let mut svg = format!(
        "<text x=\"{x:.1}\" y=\"{y}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\">"
    );
    for c in words.chars() {
        match c {
            '&' => svg.push_str("&amp;"),
            '<' => svg.push_str("&lt;"),
            // Characters that XML forbids.
            c if c.is_control() => svg.push('\u{fffd}'),
            c => svg.push(c),
        }
    }
    if span.seconds > 0.0 {
        let _ = write!(
            svg,
            "<animate attributeName=\"visibility\" calcMode=\"discrete\" values=\"hidden;visible\" \
             keyTimes=\"0;{:.4}\" dur=\"{duration:.2}s\" repeatCount=\"indefinite\"/>",
            span.seconds / duration
        );
    }
    svg + "</text>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_in_its_column_and_appears_in_its_time() {
        let span = |seconds, column, text: &str| Span { seconds, column, text: text.to_owned() };
        let svg = animation(&[vec![span(0.0, 0, "$ a<b"), span(2.0, 5, " & c")]]);
        assert!(svg.contains("<text x=\"20.0\" y=\"34\""), "{svg}");
        assert!(svg.contains(">$ a&lt;b</text>"), "{svg}");
        // Six columns of 8.4 pixels; two of the six seconds.
        assert!(svg.contains("x=\"70.4\"") && svg.contains(">&amp; c<animate"), "{svg}");
        assert!(svg.contains("keyTimes=\"0;0.3333\" dur=\"6.00s\""), "{svg}");
    }
}
