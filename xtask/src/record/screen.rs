//! Breaking what was printed into the lines of a screen.

/// Characters of a line.
pub(super) const COLUMNS: usize = 84;

/// Text that was printed at once.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// When, since the first one.
    pub(super) seconds: f64,
    pub(super) text: String,
}

/// Part of a line that appears at once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) seconds: f64,
    pub(super) column: usize,
    pub(super) text: String,
}

/// A character and the time it appears.
type Cell = (char, f64);

/// The lines of a screen on which `typed` stands from the start and the pieces appear; words stay whole
/// where they can.
pub(super) fn lines(typed: &str, pieces: &[Piece]) -> Vec<Vec<Span>> {
    let mut cells: Vec<Cell> = typed.chars().map(|c| (c, 0.0)).collect();
    cells.extend(pieces.iter().flat_map(|p| p.text.chars().map(|c| (c, p.seconds))));
    let ends_open = cells.last().is_none_or(|(c, _)| *c != '\n');
    let mut paragraphs: Vec<&[Cell]> = cells.split(|(c, _)| *c == '\n').collect();
    if !ends_open {
        paragraphs.pop();
    }
    paragraphs.into_iter().flat_map(wrap).map(spans).collect()
}

/// Cuts a line behind its last space that still fits, or anywhere if there is none.
fn wrap(mut line: &[Cell]) -> Vec<&[Cell]> {
    let mut lines = Vec::new();
    while line.len() > COLUMNS {
        let space = line[..COLUMNS].iter().rposition(|(c, _)| *c == ' ');
        let (first, rest) = line.split_at(space.map_or(COLUMNS, |at| at + 1));
        lines.push(first);
        line = rest;
    }
    lines.push(line);
    lines
}

/// Neighbours that appear at the same time, together.
fn spans(line: &[Cell]) -> Vec<Span> {
    let mut column = 0;
    let same = line.chunk_by(|a, b| a.1 == b.1);
    same.map(|cells| {
        let span = Span { seconds: cells[0].1, column, text: cells.iter().map(|c| c.0).collect() };
        column += cells.len();
        span
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(seconds: f64, text: &str) -> Piece {
        Piece { seconds, text: text.to_owned() }
    }

    #[test]
    fn pieces_follow_each_other_on_a_line() {
        let lines =
            lines("$ go\n", &[piece(0.5, "Once"), piece(1.0, " upon\na"), piece(1.5, "\n")]);
        let span = |seconds, column, text: &str| Span { seconds, column, text: text.to_owned() };
        let expected = vec![
            vec![span(0.0, 0, "$ go")],
            vec![span(0.5, 0, "Once"), span(1.0, 4, " upon")],
            vec![span(1.0, 0, "a")],
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn long_lines_break_between_words() {
        let text = format!("{} {}", "a".repeat(80), "b".repeat(100));
        let lines = lines("", &[piece(0.0, &text)]);
        let lengths: Vec<usize> = lines.iter().map(|line| line[0].text.len()).collect();
        assert_eq!(lengths, [81, COLUMNS, 16]);
    }
}
