//! Suggestions of the command line: options that its help shows, and no others.

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, Error};
use micanite_server::configuration::tabled_names;

use crate::CommandLine;

/// Removes from an error the suggestion of an option that help does not show: one for tests, or one that is
/// refused.
pub fn without_hidden(mut error: Error) -> Error {
    let suggested = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(name)) => name.trim_start_matches('-').to_owned(),
        _ => return error,
    };
    if hidden_names().contains(&suggested) {
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

/// Returns the long names of options that no help shows.
pub fn hidden_names() -> Vec<String> {
    let tabled = tabled_names();
    let mut names = Vec::new();
    add_hidden(&CommandLine::command(), &mut names);
    names.retain(|name| !tabled.contains(name));
    names
}

fn add_hidden(command: &Command, names: &mut Vec<String>) {
    let hidden = command.get_arguments().filter(|argument| argument.is_hide_set());
    names.extend(hidden.filter_map(|argument| argument.get_long()).map(String::from));
    command.get_subcommands().for_each(|command| add_hidden(command, names));
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// Returns what is said of an option of `serve` that there is not.
    fn said(option: &str) -> String {
        let error = CommandLine::try_parse_from(["micanite", "serve", option]).unwrap_err();
        without_hidden(error).to_string()
    }

    #[test]
    fn hidden_options_are_not_suggested() {
        let hidden = hidden_names();
        assert!(hidden.iter().any(|name| name == "hash-seed"), "{hidden:?}");
        for name in &hidden {
            for near in [format!("--{name}x=1"), format!("--{}=1", &name[..name.len() - 1])] {
                let said = said(&near);
                assert!(!said.contains(&format!("'--{name}'")), "{said}");
            }
        }
    }

    #[test]
    fn the_nearest_option_is_suggested() {
        for (near, suggested) in [
            ("--thread=2", "'--threads'"),
            ("--memory-limti=1g", "'--memory-limit'"),
            ("--native-paylaod=9", "'--native-payload'"),
            ("--admin-file=a", "'--admin-files'"),
        ] {
            let said = said(near);
            assert!(said.contains(suggested), "{near}: {said}");
        }
    }
}
