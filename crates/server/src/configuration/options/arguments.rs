//! The command line of `serve`, and the sources of options: command line, environment, file.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::{CONFIGURATION, Options, Origin, UNSAID, unknown_variables};
use crate::configuration::UsageError;
use crate::telemetry::log::start;

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
        for warning in unknown_variables() {
            start!(WARN, "{warning}");
        }
        options.split_port();
        match self.config {
            Some(path) => Ok(options.or(from(Origin::File, read(&path)?))),
            None => Ok(options),
        }
    }
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
}
