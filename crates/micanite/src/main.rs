//! Micanite: a memcached-compatible cache and store on MICA's engine. The command line.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use micanite_command::{Command, CommandLine, trace};
use micanite_host::{control, top};
use micanite_load::load;
use micanite_plan::plan;
use micanite_server::configuration::unknown_variables;

fn main() -> ExitCode {
    micanite_command::end_at_a_panic();
    let words: Vec<_> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let parsed = CommandLine::try_parse();
    if let Ok(CommandLine { command }) = &parsed {
        // `serve` warns by its log.
        if !matches!(command, Command::Serve(_) | Command::Completions { .. }) {
            for warning in unknown_variables() {
                let _ = writeln!(std::io::stderr(), "micanite: {warning}");
            }
        }
    }
    match parsed.map_err(|error| micanite_command::suggest(error, words.iter().map(String::as_str))) {
        Ok(CommandLine { command: Command::Serve(arguments) }) => micanite_server::serve(*arguments),
        Ok(CommandLine { command: Command::Ctl(options) }) => control(options),
        Ok(CommandLine { command: Command::Top(options) }) => top(options),
        Ok(CommandLine { command: Command::Load(options) }) => load(&options),
        Ok(CommandLine { command: Command::Plan(options) }) => plan(&options),
        Ok(CommandLine { command: Command::Trace(options) }) => trace(&options),
        Ok(CommandLine { command: Command::Completions { shell } }) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut micanite_command::completed(), "micanite", &mut text);
            // A reader that has seen enough closes the pipe.
            let _ = std::io::stdout().write_all(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            // Help and version come this way too. Where it cannot be printed, the status tells.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            // An option of memcached's users, who know no commands.
            if words.first().is_some_and(|word| word.starts_with('-')) {
                let tip = format!("tip: micanite serve {} starts a server", words.join(" "));
                let _ = writeln!(std::io::stderr(), "\n  {tip}");
            }
            ExitCode::from(micanite_server::EXIT_USAGE)
        }
    }
}
