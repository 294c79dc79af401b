//! Plain tables: columns padded to their widest cell.

use std::io::{self, Write};

/// Which side of its column a cell leans to.
#[derive(Clone, Copy)]
pub enum Side {
    Left,
    Right,
}

/// Writes a table with a head line, indented by two spaces. The rows are made twice, for
/// their widths and for printing, so that a table of any length needs no memory.
///
/// # Errors
/// `out` cannot be written.
pub fn write<const N: usize>(
    out: &mut dyn Write,
    columns: [(&str, Side); N],
    rows: impl Iterator<Item = [String; N]> + Clone,
) -> io::Result<()> {
    let mut widths = columns.map(|(head, _)| width(head));
    for row in rows.clone() {
        for (widest, cell) in widths.iter_mut().zip(&row) {
            *widest = (*widest).max(width(cell));
        }
    }
    let sides = columns.map(|(_, side)| side);
    write_row(out, &columns.map(|(head, _)| head.to_owned()), &widths, &sides)?;
    for row in rows {
        write_row(out, &row, &widths, &sides)?;
    }
    Ok(())
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

fn write_row(
    out: &mut dyn Write,
    cells: &[String],
    widths: &[usize],
    sides: &[Side],
) -> io::Result<()> {
    let mut line = String::from(" ");
    for ((cell, &wide), side) in cells.iter().zip(widths).zip(sides) {
        let padding = " ".repeat(wide - width(cell));
        let (before, after) = match side {
            Side::Left => ("", padding.as_str()),
            Side::Right => (padding.as_str(), ""),
        };
        line.extend([" ", before, cell, after, " "]);
    }
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut out = Vec::new();
        let rows = [["a", "1"], ["größe", "100"]].map(|row| row.map(str::to_owned));
        let columns = [("name", Side::Left), ("size", Side::Right)];
        write(&mut out, columns, rows.iter().cloned()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "  name   size\n  a         1\n  größe   100\n");
    }
}
