//! The console's page. Its files are in the program, and load nothing from elsewhere.

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";
const MARK: &str = concat!(
    r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">"#,
    "\n",
    r##"<rect width="16" height="16" rx="3" fill="#24629f"/>"##,
    "\n",
    r##"<path d="M3 12V4l5 4 5-4v8" fill="none" stroke="#fff" stroke-width="2"/></svg>"##,
);

const FILES: [(&str, &str, &str); 12] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/console.css", STYLE, include_str!("page/console.css")),
    ("/icon.svg", ICON, MARK),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/ask.js", SCRIPT, include_str!("page/ask.js")),
    ("/store.js", SCRIPT, include_str!("page/store.js")),
    ("/format.js", SCRIPT, include_str!("page/format.js")),
    ("/charts.js", SCRIPT, include_str!("page/charts.js")),
    ("/panels.js", SCRIPT, include_str!("page/panels.js")),
    ("/tables.js", SCRIPT, include_str!("page/tables.js")),
    ("/heat.js", SCRIPT, include_str!("page/heat.js")),
    ("/controls.js", SCRIPT, include_str!("page/controls.js")),
];

/// Returns the type and the text of a file.
pub(super) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|file| file.0 == path).map(|(_, r#type, text)| (*r#type, *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES_MAX: usize = 400;

    #[test]
    fn files_are_short_and_complete() {
        for (path, _, text) in FILES {
            assert!(text.lines().count() <= LINES_MAX, "{path}");
            for line in text.lines() {
                assert!(line.chars().count() <= 120, "{path}: {line}");
                assert!(!line.contains("style=\"") && !line.contains("innerHTML"), "{path}: {line}");
            }
            // Modules that are imported, and files that the page names, are served.
            let named = text.split(['"', '(']).filter_map(|word| word.strip_prefix("./"));
            named.for_each(|name| assert!(find(&format!("/{name}")).is_some(), "{path} names {name}"));
        }
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_no_script_stands_in_the_page() {
        for (path, r#type, text) in FILES {
            let text = text.replace("http://www.w3.org/", "");
            assert!(!text.contains("://"), "{path}");
            if r#type == HTML {
                assert!(!text.contains("<style") && !text.contains(" onclick="), "{path}");
                assert_eq!(
                    text.matches("<script").count(),
                    text.matches("<script type=\"module\" src=").count()
                );
            }
        }
    }
}
