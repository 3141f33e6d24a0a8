//! Tables as text.

use std::fmt::Write as _;

/// Columns below each other; `is_right` chooses those that are aligned to the right.
pub fn aligned(rows: &[Vec<String>], is_right: impl Fn(usize) -> bool) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let width: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (at, (cell, width)) in row.iter().zip(&width).enumerate() {
            let gap = if at == 0 { "" } else { "  " };
            let _ = match is_right(at) {
                true => write!(text, "{gap}{cell:>width$}"),
                false => write!(text, "{gap}{cell:<width$}"),
            };
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

/// A field of CSV (RFC 4180).
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_columns_aligned() {
        let fields = ["a", "a,\"b\""].map(csv_field);
        assert_eq!(fields, ["a", "\"a,\"\"b\"\"\""]);
        let rows = [["", "all"], ["requests", "12"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows, |at| at > 0), "          all\nrequests   12\n");
    }
}
