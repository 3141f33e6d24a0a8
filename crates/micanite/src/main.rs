//! Micanite: a memcached-compatible cache and store on MICA's engine. The command line.

use std::process::ExitCode;

use clap::Parser;
use micanite::{Command, CommandLine, trace};
use micanite_host::{EXIT_CONTROL_USAGE, control};
use micanite_load::load;
use micanite_plan::plan;
use micanite_workload::trace::Failure;

fn main() -> ExitCode {
    micanite::end_at_a_panic();
    match CommandLine::try_parse() {
        Ok(CommandLine { command: Command::Serve(arguments) }) => micanite_server::serve(*arguments),
        Ok(CommandLine { command: Command::Ctl(options) }) => control(options),
        Ok(CommandLine { command: Command::Load(options) }) => load(&options),
        Ok(CommandLine { command: Command::Plan(options) }) => plan(&options),
        Ok(CommandLine { command: Command::Trace(options) }) => trace(&options),
        Err(error) => {
            // Help and version come this way too. Where it cannot be printed, the status tells.
            let _ = error.print();
            ExitCode::from(match std::env::args().nth(1) {
                _ if !error.use_stderr() => 0,
                Some(word) if word == "ctl" => EXIT_CONTROL_USAGE,
                Some(word) if ["load", "plan", "trace"].contains(&word.as_str()) => Failure::EXIT_USAGE,
                _ => micanite_server::EXIT_USAGE,
            })
        }
    }
}
