//! Micanite: a memcached-compatible cache on MICA's engine. The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use micanite_server::configuration::Options;

const SOURCES: &str = "\
Every option may also come from the environment (MICANITE_MEMORY_LIMIT=1g for --memory-limit 1g)
or from the file that --config names (memory-limit = \"1g\"). The command line wins, then the
environment, then the file.";

/// A memcached-compatible in-memory cache.
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
}

fn main() -> ExitCode {
    match CommandLine::try_parse() {
        Ok(CommandLine {
            command: Command::Serve(options),
        }) => micanite_server::serve(*options),
        Err(error) => {
            // Help and version come this way too. Where it cannot be printed, the status tells.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() {
                micanite_server::EXIT_USAGE
            } else {
                0
            })
        }
    }
}
