//! Tables for people: columns that line up and fit the terminal.
//!
//! A table that is too wide loses its least important columns first. A column that must not be lost moves below its row.
//! Where stdout is no terminal, a table has all columns.

use super::{TextStyle, VisibleText};
use base::text::visible;
use config::env::Env;

/// The widest column, in characters: one long name does not make every line as long.
const MAX_COLUMN: usize = 60;
/// The space between two columns.
const GAP: &str = "  ";

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its head.
    pub head: &'static str,
    /// When it is left out: the column with the largest number first. One with 0 stays.
    pub dispensable: u8,
    /// Whether its cells stand below their rows, after the head, when there is no place for the column.
    pub moves_below: bool,
}

impl Column {
    /// Creates a column that always stays.
    pub const fn kept(head: &'static str) -> Self {
        Self::dispensable(head, 0)
    }

    /// Creates a column that is left out before those with a smaller number.
    pub const fn dispensable(head: &'static str, dispensable: u8) -> Self {
        Self { head, dispensable, moves_below: false }
    }
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its text, on one line.
    text: String,
    /// How it stands out.
    style: Option<TextStyle>,
}

impl Cell {
    /// Creates a cell that stands out.
    pub fn styled(text: impl Into<String>, style: Option<TextStyle>) -> Self {
        // Its width is known only when every character is visible.
        Self { text: visible(&text.into()), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, None)
    }
}

/// A row of a table, and the lines below it.
#[derive(Clone, Debug)]
pub struct Row<const N: usize> {
    /// A cell for each column.
    pub cells: [Cell; N],
    /// What is to be known of the row. Each text may have several lines.
    pub below: Vec<String>,
}

/// How a table is shown.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The space before each row, in characters.
    pub indent: usize,
    /// The number of columns of the terminal; `None` if there is none.
    pub width: Option<usize>,
    /// Whether cells stand out.
    pub has_color: bool,
}

impl Layout {
    /// Creates the layout of stdout.
    pub fn of_stdout(indent: usize, env: &Env) -> Self {
        Self { indent, width: crate::width().map(usize::from), has_color: crate::has_color(env) }
    }
}

/// Writes a table: its heads, and each row with the lines below it.
pub fn write<const N: usize>(
    out: &mut VisibleText,
    columns: &[Column; N],
    rows: Vec<Row<N>>,
    layout: Layout,
) {
    let widths: [usize; N] = std::array::from_fn(|index| {
        let cells = rows.iter().map(|row| row.cells[index].text.chars().count());
        cells.chain([columns[index].head.chars().count()]).max().unwrap_or(0).min(MAX_COLUMN)
    });
    let shown = shown_columns(columns, &widths, layout);
    let heads =
        Row { cells: std::array::from_fn(|index| Cell::from(columns[index].head)), below: Vec::new() };
    let (margin, below_margin) = (" ".repeat(layout.indent), " ".repeat(layout.indent + 4));
    for row in std::iter::once(heads).chain(rows) {
        let mut parts = vec![(None, margin.clone())];
        let mut below = row.below;
        for (index, cell) in row.cells.into_iter().enumerate() {
            if shown[index] {
                let padding = " ".repeat(widths[index].saturating_sub(cell.text.chars().count()));
                let style = cell.style.filter(|_| layout.has_color);
                parts.extend([(style, cell.text), (None, format!("{padding}{GAP}"))]);
            } else if columns[index].moves_below && cell.text != "-" && cell.text != columns[index].head {
                below.insert(0, format!("{}: {}", columns[index].head, cell.text));
            }
        }
        // No line ends with spaces.
        while parts.last().is_some_and(|(style, text)| style.is_none() && text.trim().is_empty()) {
            parts.pop();
        }
        out.parts(&parts);
        below.iter().for_each(|text| out.lines(&below_margin, text));
    }
}

/// Returns which columns have a place.
fn shown_columns<const N: usize>(columns: &[Column; N], widths: &[usize; N], layout: Layout) -> [bool; N] {
    let mut shown = [true; N];
    let Some(limit) = layout.width else { return shown };
    loop {
        let count = shown.iter().filter(|shown| **shown).count();
        let cells: usize = (0..N).filter(|index| shown[*index]).map(|index| widths[index]).sum();
        if layout.indent + cells + count.saturating_sub(1) * GAP.len() <= limit {
            return shown;
        }
        let least = (0..N).filter(|index| shown[*index] && columns[*index].dispensable > 0);
        let Some(least) = least.max_by_key(|index| columns[*index].dispensable) else { return shown };
        shown[least] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::kept("name"),
        Column::dispensable("calls", 1),
        Column::dispensable("idle", 2),
        Column { head: "runs", dispensable: 3, moves_below: true },
    ];

    fn table(width: Option<usize>) -> String {
        let row = |cells: [&str; 4], below: &[&str]| Row {
            cells: cells.map(Cell::from),
            below: below.iter().map(ToString::to_string).collect(),
        };
        let rows = vec![
            row(["one", "12", "20 s", "/usr/bin/one"], &["it failed:\n> no"]),
            row(["a longer name", "3", "-", "-"], &[]),
        ];
        let mut out = VisibleText::default();
        write(&mut out, &COLUMNS, rows, Layout { indent: 2, width, has_color: false });
        out.to_string()
    }

    #[test]
    fn a_table_loses_its_least_important_columns_first() {
        let whole = "  name           calls  idle  runs
  one            12     20 s  /usr/bin/one
      it failed:
      > no
  a longer name  3      -     -
";
        assert_eq!(table(None), whole);
        assert_eq!(table(Some(42)), whole);
        let without_runs = "  name           calls  idle
  one            12     20 s
      runs: /usr/bin/one
      it failed:
      > no
  a longer name  3      -
";
        assert_eq!(table(Some(41)), without_runs);
        assert_eq!(table(Some(28)), without_runs);
        assert!(table(Some(27)).starts_with("  name           calls\n"));
        assert!(table(Some(3)).starts_with("  name\n  one\n"));
    }

    #[test]
    fn styles_take_no_space() {
        let rows = vec![Row {
            cells: [Cell::styled("ok\u{1b}", Some(TextStyle::Good)), "x".into()],
            below: Vec::new(),
        }];
        let mut out = VisibleText::default();
        let columns = [Column::kept("state"), Column::kept("y")];
        write(&mut out, &columns, rows, Layout { indent: 0, width: Some(60), has_color: true });
        assert_eq!(out.to_string(), "state     y\n\u{1b}[32mok\\u{1b}\u{1b}[0m  x\n");
    }
}
