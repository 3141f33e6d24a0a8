//! The command line of `serve`, and the sources of options: command line, environment, file.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::{CONFIGURATION, Options, Origin, UNSAID, did_you_mean};
use crate::configuration::UsageError;
use crate::telemetry::log::start;

/// Beginning of the variables of options.
const PREFIX: &str = "MICANITE_";
/// Beginnings of variables with this prefix that are no options: of `--config`, of a restart, of tests and
/// benchmarks, and of a Kubernetes service that is named micanite.
const OTHERS: [&str; 6] = ["CONFIG", "HANDOVER", "TRIAL", "TEST_", "SERVICE_", "PORT_"];

/// The command line of `serve`.
#[derive(Args, Clone, Debug, Default)]
pub struct Arguments {
    #[command(flatten)]
    pub options: Options,
    /// Set an option by its name in the file, such as native.busy-poll=50; repeatable
    #[arg(long, value_name = "NAME=VALUE", help_heading = CONFIGURATION, hide_short_help = true)]
    pub set: Vec<String>,
    /// TOML file with these options by their long names
    #[arg(long, value_name = "FILE", env = "MICANITE_CONFIG", hide_env = true, help_heading = CONFIGURATION)]
    pub config: Option<PathBuf>,
    /// Print the resulting configuration as TOML and end
    #[arg(long, help_heading = CONFIGURATION, hide_short_help = true)]
    pub print_config: bool,
}

impl Arguments {
    /// Returns the options of the command line, the environment and the file, in this order.
    ///
    /// # Errors
    /// The file cannot be read, or has something in it that is no option.
    pub fn options(self) -> Result<Options, UsageError> {
        let from = |origin: Origin, mut options: Options| {
            options.values_mut().into_iter().for_each(|value| value.set_origin(origin));
            options
        };
        let said = from(Origin::CommandLine, self.options.join(Options::of_set(&self.set)?));
        let mut options = said.join(from(Origin::Environment, Options::of_environment()?));
        warn_of_unknown_variables(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()));
        options.split_port();
        match self.config {
            Some(path) => Ok(options.or(from(Origin::File, read(&path)?))),
            None => Ok(options),
        }
    }
}

/// Warns of variables of the environment that look like options and are none, which would have no effect.
fn warn_of_unknown_variables(names: impl Iterator<Item = String>) {
    for text in names.filter_map(|name| unknown_variable(&name)) {
        start!(WARN, "{text}");
    }
}

/// Returns the warning of a variable that begins as options do and is none.
fn unknown_variable(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX)?;
    let is_option =
        UNSAID.values().iter().any(|value| value.declared.variables().iter().any(|of| of == name));
    if is_option || OTHERS.iter().any(|other| rest.starts_with(other)) {
        return None;
    }
    let option = rest.to_ascii_lowercase().replace('_', "-");
    let hint = did_you_mean(&option, UNSAID.offered_names());
    let hint = match hint.split('\'').nth(1) {
        Some(near) => format!("; did you mean {PREFIX}{}?", near.to_uppercase().replace(['-', '.'], "_")),
        None => String::new(),
    };
    Some(format!("the variable {name} names no option, and has no effect{hint}"))
}

fn read(path: &Path) -> Result<Options, UsageError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError(format!("cannot read --config {shown}: {error}")))?;
    toml::from_str(&text).map_err(|error| UsageError(format!("--config {shown}: {error}")))
}

impl Args for Options {
    fn augment_args(command: Command) -> Command {
        command.args(UNSAID.values().into_iter().map(|value| value.declared.argument()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.values_mut().into_iter().for_each(|value| value.take(matches));
        Ok(())
    }
}

impl Options {
    /// Reads what stood behind each `--set`: `NAME=VALUE`.
    fn of_set(said: &[String]) -> Result<Self, UsageError> {
        let mut options = Self::default();
        for said in said {
            let (name, text) = said
                .split_once('=')
                .ok_or_else(|| UsageError(format!("--set: '{said}' has no '=': NAME=VALUE")))?;
            let option = options.find(name).map_err(|what| UsageError(format!("--set: {what}")))?;
            option.set_words(option.words().iter().cloned().chain([text.into()]).collect());
        }
        Ok(options)
    }

    /// Reads the environment, by the variables of all options.
    fn of_environment() -> Result<Self, UsageError> {
        let mut options = Self::default();
        for value in options.values_mut() {
            for name in value.declared.variables() {
                match std::env::var(&name) {
                    Ok(text) => value.set(text),
                    Err(std::env::VarError::NotPresent) => {}
                    Err(error) => return Err(UsageError(format!("{name}: {error}"))),
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_no_options_are_named() {
        let warning = unknown_variable("MICANITE_MEMORY_LIMTI").unwrap();
        assert!(warning.ends_with("did you mean MICANITE_MEMORY_LIMIT?"), "{warning}");
        let warning = unknown_variable("MICANITE_COLOUR").unwrap();
        assert!(warning.ends_with("has no effect"), "{warning}");
        for name in ["MICANITE_MEMORY_LIMIT", "MICANITE_NATIVE_PAYLOAD", "MICANITE_CONFIG", "PATH"] {
            assert_eq!(unknown_variable(name), None, "{name}");
        }
        for name in ["MICANITE_SERVICE_HOST", "MICANITE_PORT_11211_TCP_ADDR", "MICANITE_TEST_REPORTS"] {
            assert_eq!(unknown_variable(name), None, "{name}");
        }
    }
}
