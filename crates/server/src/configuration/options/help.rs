//! The part of `--help` behind the list of options.

use super::value::Declaration;
use super::{Kind, Options, WITHOUT_EFFECT};

const TUNING: &str =
    "Tuning, by --set NAME=VALUE, by sections of the file, or as a flag (--native-payload=BYTES)";

/// Returns two tables: names for tuning, and memcached's options without effect.
pub fn tables() -> String {
    let options = Options::default();
    let all = || options.values().into_iter().map(|value| &value.declared);
    let mut text = format!("{TUNING}:\n");
    for declared in all().filter(|declared| declared.is_tuning()) {
        row(&mut text, &format!("{}={}", declared.path, declared.value_name), &declared.help);
    }
    text += &format!("\n{WITHOUT_EFFECT}:\n");
    for declared in all() {
        if let (WITHOUT_EFFECT, Some(letter)) = (declared.heading, declared.letter) {
            row(&mut text, &format!("-{letter}, --{}", declared.name), &declared.help);
        }
    }
    text
}

/// Returns the long names of the options of [`tables`], for documents that list all options.
pub fn tabled_names() -> Vec<String> {
    let options = Options::default();
    let tabled = options.values().into_iter().filter(|value| value.declared.is_tabled());
    tabled.map(|value| value.declared.name.clone()).collect()
}

/// An option as a command line may offer it.
pub struct Offered {
    /// Long name.
    pub name: String,
    /// Other spellings, for suggestions: its name in the file with hyphens, and its former name.
    pub spellings: Vec<String>,
    /// Values that it may have; none: they are no list.
    pub choices: &'static [&'static str],
}

/// Returns the options of `serve` that suggestions and completions may name.
pub fn offered() -> Vec<Offered> {
    let of = |declared: &Declaration| Offered {
        name: declared.name.clone(),
        spellings: [declared.path.replace('.', "-")]
            .into_iter()
            .chain(declared.alias_name().map(String::from))
            .collect(),
        choices: match declared.kind {
            Kind::Choice(names) => names,
            _ => &[],
        },
    };
    Options::default().offered().map(of).collect()
}

/// Writes a row of a table of two columns.
fn row(text: &mut String, name: &str, help: &str) {
    const HELP_COLUMN: usize = 34;
    const COLUMNS: usize = 98;
    let mut line = format!("  {name}");
    for word in help.split_whitespace() {
        if line.len() + word.len() >= COLUMNS {
            *text += &format!("{line}\n");
            line.clear();
        }
        line = match line.len() {
            ..HELP_COLUMN => format!("{line:HELP_COLUMN$}{word}"),
            _ => format!("{line} {word}"),
        };
    }
    *text += &format!("{line}\n");
}
