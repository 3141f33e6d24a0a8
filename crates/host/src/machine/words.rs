//! Names of interfaces, and words for a shell.

use std::collections::BTreeSet;

/// Bytes of an interface's name, at most.
const NAME_BYTES_MAX: usize = 15;

/// Checks that these may be names of interfaces, each given once.
pub fn check_interfaces(names: &[String]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        let wrong = name.is_empty() || name == "." || name == ".." || name.starts_with('-');
        if wrong || name.len() > NAME_BYTES_MAX || name.contains(odd) {
            return Err(format!("'{name}' is no name of an interface"));
        }
        if !seen.insert(name) {
            return Err(format!("{name} is named twice"));
        }
    }
    Ok(())
}

/// Quotes a word for a shell, where it has to be.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:@=+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
