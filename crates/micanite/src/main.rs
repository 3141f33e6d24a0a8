//! Micanite: a memcached-compatible cache and store on MICA's engine. The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use micanite_load::{EXIT_LOAD_USAGE, LoadOptions, load};
use micanite_server::configuration::Options;
use micanite_server::control::{ControlOptions, EXIT_CONTROL_USAGE, control};

const SOURCES: &str = "\
Every option may also come from the environment (MICANITE_MEMORY_LIMIT=1g for --memory-limit 1g)
or from the file that --config names (memory-limit = \"1g\"). The command line wins, then the
environment, then the file.";

const CONTROL: &str = "\
The server listens on a Unix socket that its own user alone can reach; it prints the path at start.
Exit status: 0 done, 1 refused (the reason is on standard error), 2 usage.";

const LOAD: &str = "\
Exit status: 0 done, 1 wrong values, no reply at all or nothing found within the bound, 2 usage.
docs/load.md explains the figures.";

/// A memcached-compatible in-memory cache and store.
#[derive(Debug, Parser)]
#[command(name = "micanite", version, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the memcached protocol.
    #[command(version, args_override_self = true, after_help = SOURCES)]
    Serve(Box<Options>),
    /// Ask a running server for something, or change how it works.
    #[command(version, after_help = CONTROL)]
    Ctl(ControlOptions),
    /// Load servers and measure them: throughput, loss, latency; every value is checked.
    #[command(version, args_override_self = true, after_help = LOAD)]
    Load(Box<LoadOptions>),
}

fn main() -> ExitCode {
    match CommandLine::try_parse() {
        Ok(CommandLine {
            command: Command::Serve(options),
        }) => micanite_server::serve(*options),
        Ok(CommandLine {
            command: Command::Ctl(options),
        }) => control(options),
        Ok(CommandLine {
            command: Command::Load(options),
        }) => load(&options),
        Err(error) => {
            // Help and version come this way too. Where it cannot be printed, the status tells.
            let _ = error.print();
            ExitCode::from(match std::env::args().nth(1) {
                _ if !error.use_stderr() => 0,
                Some(word) if word == "ctl" => EXIT_CONTROL_USAGE,
                Some(word) if word == "load" => EXIT_LOAD_USAGE,
                _ => micanite_server::EXIT_USAGE,
            })
        }
    }
}
