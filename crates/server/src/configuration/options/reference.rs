//! The tables of `docs/reference/options.md`.

use std::fmt::Write as _;

use micanite_control::size;

use super::value::{Declaration, Kind};
use super::{Options, WITHOUT_EFFECT};

/// Sections of other pages that explain the options of a heading.
const PAGES: [(&str, &str); 12] = [
    ("Network", "[UDP](../operations.md#udp), [addresses and TLS](../security.md#tls)"),
    (
        "Memory and items",
        "[memory](../operations.md#memory), [stores](../operations.md#stores), \
         [images](../operations.md#images), [namespaces](../operations.md#namespaces)",
    ),
    ("Workers", "[access modes](../operations.md#access-modes)"),
    ("Access control and TLS", "[security](../security.md)"),
    ("Process", "[restarting](../operations.md#restarting), [deploying](../deploying.md)"),
    ("Control and observability", "[control](../operations.md#control), [metrics](../metrics.md)"),
    ("Native protocol", "[native protocol](../operations.md#native-protocol)"),
    ("Kernel bypass", "[ports around the kernel](../bypass.md)"),
    ("GETs in the kernel", "[kernel](../kernel.md)"),
    ("Readers on the same host", "[local](../local.md)"),
    ("One-sided reads", "[fabric](../fabric.md)"),
    ("memcached compatibility", "[compatibility](../compatibility.md)"),
];

/// Returns a table for each heading, in Markdown, of all options that a help shows.
pub fn reference() -> String {
    let options = Options::default();
    let mut page = String::new();
    let mut heading = "";
    for value in options.values() {
        let declared = &value.declared;
        if declared.is_hidden() {
            continue;
        }
        if heading != declared.heading {
            heading = declared.heading;
            begin_table(&mut page, heading);
        }
        row(&mut page, declared);
    }
    page
}

/// Returns the long names of the options whose files the signal HUP reads again.
pub fn reread_names() -> Vec<String> {
    let options = Options::default();
    let reread = options.values().into_iter().filter(|value| value.declared.is_reread());
    reread.map(|value| value.declared.name.clone()).collect()
}

fn begin_table(page: &mut String, heading: &str) {
    let _ = write!(page, "\n## {heading}\n\n");
    if heading == WITHOUT_EFFECT {
        page.push_str(
            "These are accepted and change nothing. `-v` lists at start which of them were given.\n\n",
        );
    }
    if let Some((_, pages)) = PAGES.iter().find(|(of, _)| *of == heading) {
        let _ = write!(page, "See {pages}.\n\n");
    }
    page.push_str("| option | in the file | default | meaning |\n|---|---|---|---|\n");
}

fn row(page: &mut String, declared: &Declaration) {
    let (name, path) = (&declared.name, &declared.path);
    let letter = declared.letter.map_or(String::new(), |letter| format!("`-{letter}`, "));
    let value = if declared.is_switch() { String::new() } else { format!(" {}", declared.value_name) };
    let (mut meaning, default) = split_default(&declared.help);
    // Some helps say the bounds in a sentence.
    if let Some(range) = range(&declared.kind).filter(|range| !meaning.contains(range)) {
        let _ = write!(meaning, ". {range}");
    }
    if let Some(alias) = declared.alias_name() {
        let _ = write!(meaning, ". Former name: `--{alias}`");
    }
    if declared.is_reread() {
        meaning.push_str(". The signal HUP reads the file again");
    }
    let meaning = linked(&meaning).replace('|', "\\|");
    let _ = writeln!(
        page,
        "| <a id=\"{name}\"></a>{letter}`--{name}{value}` | `{path}` | {default} | {meaning} |"
    );
}

/// Returns the help without its default, and the default.
fn split_default(help: &str) -> (String, String) {
    const MARK: &str = " [default: ";
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = help.split_once(MARK).and_then(|(before, rest)| Some((before, rest.rsplit_once(']')?)));
    match found {
        Some((before, (default, behind))) => (format!("{before}{behind}"), default.to_string()),
        None => (help, String::new()),
    }
}

/// Returns a sentence about what a number may be, if it has bounds that a person may meet.
fn range(kind: &Kind) -> Option<String> {
    const UNBOUNDED: usize = i32::MAX as usize;
    match kind {
        Kind::Number(range) if *range.end() < UNBOUNDED => {
            Some(format!("{} to {}", range.start(), range.end()))
        }
        Kind::Size(_, range) if *range.end() != usize::MAX => {
            Some(format!("{} to {}", size::exact(*range.start()), size::exact(*range.end())))
        }
        _ => None,
    }
}

/// Makes links of the pages that a help names: `docs/kernel.md`.
fn linked(text: &str) -> String {
    let word = |word: &str| match word.strip_prefix("docs/").and_then(|page| page.split_once(".md")) {
        Some((page, behind)) => format!("[{page}.md](../{page}.md){behind}"),
        None => word.to_string(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_split_from_its_help() {
        for (help, meaning, default) in [
            ("Where [default: here]", "Where", "here"),
            ("Key [default: in --cert]. As -o key", "Key. As -o key", "in --cert"),
            ("Only\n this", "Only this", ""),
        ] {
            assert_eq!(split_default(help), (meaning.into(), default.into()));
        }
    }

    #[test]
    fn every_option_that_is_shown_has_a_row_and_every_heading_a_page() {
        let page = reference();
        let options = Options::default();
        for declared in options.values().into_iter().map(|value| &value.declared) {
            let anchor = format!("<a id=\"{}\">", declared.name);
            assert_eq!(page.contains(&anchor), !declared.is_hidden(), "{anchor}");
            let is_explained = PAGES.iter().any(|(heading, _)| *heading == declared.heading);
            assert!(is_explained || declared.heading == WITHOUT_EFFECT, "{}", declared.heading);
        }
        assert!(linked("see docs/kernel.md; more").contains("[kernel.md](../kernel.md);"));
    }
}
