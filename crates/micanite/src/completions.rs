//! The command line as completions of shells offer it.

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use micanite_server::configuration::offered;

use crate::{CommandLine, hidden_names};

/// Returns the command line without options that are refused, hidden or without effect, and with the values
/// of those that have a list.
pub fn completed() -> Command {
    CommandLine::command().mut_subcommand("serve", |serve| {
        let (hidden, offered) = (hidden_names(), offered());
        let is_hidden = |name: Option<&str>| hidden.iter().any(|hidden| Some(hidden.as_str()) == name);
        let kept = serve.get_arguments().filter(|option| !is_hidden(option.get_long())).cloned();
        let kept = kept.map(|option| {
            let choices = offered.iter().find(|offered| option.get_id() == offered.name.as_str());
            match choices.map_or(&[][..], |offered| offered.choices) {
                [] => option,
                choices => option.value_parser(PossibleValuesParser::new(choices.iter().copied())),
            }
        });
        let about = serve.get_about().cloned().unwrap_or_default();
        Command::new("serve").about(about).args(kept)
    })
}

#[cfg(test)]
mod tests {
    use clap_complete::{Shell, generate};

    use super::*;

    fn text(shell: Shell) -> String {
        let mut text = Vec::new();
        generate(shell, &mut completed(), "micanite", &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn completions_leave_out_what_is_hidden() {
        for (shell, before) in [(Shell::Bash, "--"), (Shell::Zsh, "--"), (Shell::Fish, "-l ")] {
            let text = text(shell);
            assert!(text.contains(&format!("{before}memory-limit")), "{shell}");
            for name in hidden_names() {
                let ends = [" ", "=", "[", "\n", "\"", "'"];
                let named = |end: &&str| text.contains(&format!("{before}{name}{end}"));
                assert_eq!(ends.iter().find(|end| named(end)), None, "{shell}: {name}");
            }
        }
    }

    #[test]
    fn completions_offer_values() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = text(shell);
            for value in ["io_uring", "erew", "approximate-lru", "bind"] {
                assert!(text.contains(value), "{shell}: {value}");
            }
        }
    }
}
