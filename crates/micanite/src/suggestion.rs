//! Suggestions of the command line: options that do something, and no others.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Error};
use micanite_server::configuration::{nearest, offered};

use crate::CommandLine;

/// Says of an option that there is not which one may be meant: one that help shows, and that does something.
/// `words` are those of the command line.
pub fn suggest<'a>(mut error: Error, words: impl IntoIterator<Item = &'a str>) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(written)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let near = match written.strip_prefix("--") {
        Some(written) => near(written.split('=').next().unwrap_or(written), words),
        None => Vec::new(),
    };
    error.remove(ContextKind::SuggestedArg);
    if !near.is_empty() {
        error.insert(ContextKind::SuggestedArg, ContextValue::Strings(near));
    }
    // An option of another command may be a hidden one.
    if let Some(ContextValue::StyledStrs(said)) = error.get(ContextKind::Suggested) {
        let hidden = hidden_names();
        let is_hidden = |said: &str| hidden.iter().any(|name| said.contains(&format!("--{name}'")));
        let mut said = said.clone();
        said.retain(|said| !is_hidden(&said.to_string()));
        error.remove(ContextKind::Suggested);
        if !said.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(said));
        }
    }
    error
}

/// Returns the options that may be meant, of the command that the words name.
fn near<'a>(written: &str, words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut line = CommandLine::command();
    line.build();
    let mut command = &line;
    for word in words {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let hidden = hidden_names();
    let mut names: Vec<(String, String)> = Vec::new();
    for name in command.get_arguments().filter_map(Arg::get_long) {
        if !hidden.iter().any(|hidden| hidden == name) {
            names.push((name.to_owned(), name.to_owned()));
        }
    }
    if command.get_name() == SERVE {
        for option in offered() {
            names.extend(option.spellings.into_iter().map(|spelling| (spelling, option.name.clone())));
        }
    }
    let names = names.iter().map(|(spelling, name)| (spelling.as_str(), name.as_str()));
    nearest(written, names).into_iter().map(|name| format!("--{name}")).collect()
}

/// The command that has options with several spellings.
const SERVE: &str = "serve";

/// Returns the long names of options that nothing offers: no help shows them, or they have no effect.
pub fn hidden_names() -> Vec<String> {
    let offered = offered();
    let mut names = Vec::new();
    add_hidden(&CommandLine::command(), &mut names);
    names.retain(|name| !offered.iter().any(|option| option.name == *name));
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

    /// Returns what is said of a command line that is wrong.
    fn said(words: &str) -> String {
        let words: Vec<_> = ["micanite"].into_iter().chain(words.split(' ')).collect();
        let error = CommandLine::try_parse_from(&words).unwrap_err();
        suggest(error, words).to_string()
    }

    #[test]
    fn hidden_options_are_not_suggested() {
        let hidden = hidden_names();
        for name in ["hash-seed", "memory-file", "slab-min-size"] {
            assert!(hidden.iter().any(|hidden| hidden == name), "{hidden:?}");
        }
        for name in &hidden {
            for near in [format!("{name}x=1"), format!("{}=1", &name[..name.len() - 1])] {
                for command in ["serve ", "", "load ", "ctl ping "] {
                    let said = said(&format!("{command}--{near}"));
                    assert!(!said.contains(&format!("--{name}'")), "{said}");
                }
            }
        }
    }

    #[test]
    fn the_nearest_option_is_suggested() {
        for (near, suggested) in [
            ("serve --thread=2", "exists: '--threads'"),
            ("serve --memory-limti=1g", "exists: '--memory-limit'"),
            ("serve --native-paylaod=9", "exists: '--native-payload'"),
            ("serve --admin-file=a", "exists: '--admin-files'"),
            ("serve --memory 1g", "exist: '--memory-limit', '--memory-max'"),
            ("serve --native-port=1", "exists: '--native'"),
            ("serve --port-ipp=1", "exists: '--bypass-ip'"),
            ("serve --dpdk-arg=1", "exists: '--bypass-dpdk-args'"),
            ("serve --print-confg", "exists: '--print-config'"),
            ("ctl ping --prt 1", "exists: '--port'"),
            ("load --workloads a", "exists: '--workload'"),
        ] {
            let said = said(near);
            assert!(said.contains(suggested), "{near}: {said}");
        }
    }

    #[test]
    fn nothing_is_suggested_where_nothing_is_near() {
        for far in ["serve --store", "serve --slab", "serve --colour", "ctl ping --slab"] {
            let said = said(far);
            assert!(said.contains("unexpected argument") && !said.contains("similar"), "{far}: {said}");
        }
    }
}
