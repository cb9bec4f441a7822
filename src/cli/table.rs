//! Tables for people: columns as wide as what is in them.
//!
//! Must not know what they are about. Invariant: no line ends with blanks.

/// A table with a heading.
pub(super) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(|title| title.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let cells: Vec<_> = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let body: String = rows
        .iter()
        .map(|row| line(row.each_ref().map(String::as_str)))
        .collect();
    format!("{}{body}", line(heading))
}

/// A count with its noun: `1 proxy`, `2 proxies`.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let rows = [
            ["a".to_owned(), String::new()],
            ["long-id".to_owned(), "x".to_owned()],
        ];
        assert_eq!(table(["ID", "STATE"], &rows), "ID       STATE\na\nlong-id  x\n");
        assert_eq!(table(["ID", "STATE"], &[]), "ID  STATE\n");
    }
}
