//! Pieces of HTML.

use crate::report::data;
use crate::report::section::Table;

/// A text between tags or in an attribute.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A table that scrolls within itself.
pub(super) fn table(table: &Table) -> String {
    let head: String =
        table.columns.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let rows: String = table.rows.iter().map(|row| format!("<tr>{}</tr>\n", cells(row))).collect();
    let caption = if table.title.is_empty() {
        String::new()
    } else {
        format!("<caption>{}</caption>", escape(&table.title))
    };
    let label = if table.title.is_empty() { "table" } else { &table.title };
    scrolling(
        label,
        &format!("<table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>"),
    )
}

fn cells(row: &[String]) -> String {
    row.iter()
        .enumerate()
        .map(|(at, cell)| {
            let text = escape(&data::shown(cell));
            match (at, data::is_number(cell)) {
                (0, _) => format!("<th scope=\"row\">{text}</th>"),
                (_, true) => format!("<td class=\"number\">{}</td>", number(&text)),
                (_, false) => format!("<td>{text}</td>"),
            }
        })
        .collect()
}

/// A number and its spread, each in one piece; the spread may come below it.
fn number(text: &str) -> String {
    match text.split_once(" (") {
        Some((value, spread)) => format!("<span>{value}</span> <span>({spread}</span>"),
        None => format!("<span>{text}</span>"),
    }
}

/// Lets wide content scroll by itself in a narrow window, by keyboard, too.
pub(super) fn scrolling(label: &str, content: &str) -> String {
    format!(
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n{content}</div>\n",
        escape(label)
    )
}

/// A file inside the page.
pub(super) fn download(name: &str, kind: &str, content: &str, text: &str) -> String {
    let encoded: String = content.bytes().map(encoded).collect();
    format!(
        "<a download=\"{}\" href=\"data:{kind};charset=utf-8,{encoded}\">{}</a>",
        escape(name),
        escape(text)
    )
}

fn encoded(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b',' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

/// JSON inside a script element, where `</script>` would end it.
pub(super) fn json(id: &str, text: &str) -> String {
    let text = text.replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{id}\">\n{text}\n</script>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_escaped() {
        let hostile = Table {
            title: "<b>".to_owned(),
            columns: vec!["\"a\" & b".to_owned()],
            rows: vec![vec!["<script>".to_owned(), "3 (<1 to 4)".to_owned()]],
        };
        let html = table(&hostile);
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{html}");
        assert!(html.contains("&quot;a&quot; &amp; b"));
        let number = "<td class=\"number\"><span>3</span> <span>(&lt;1 to 4)</span></td>";
        assert!(html.contains(number), "{html}");
        assert!(json("raw", "\"</script>\"").contains("\\u003c/script>"));
    }

    #[test]
    fn files_inside_the_page_are_encoded() {
        let link = download("a.csv", "text/csv", "a,b\r\n\"1\",é", "CSV");
        assert!(link.contains("data:text/csv;charset=utf-8,a,b%0D%0A%221%22,%C3%A9\""), "{link}");
    }
}
