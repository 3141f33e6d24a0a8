//! Programs that the black-box tests run beside a server.

mod consistency;
mod fabric;
mod increments;
mod linearizability;
mod one_sided;
mod relay;

use clap::{Parser, Subcommand};

/// The error is a sentence for the person who runs the tests.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "micanite-test-tools", version, about = "What the tests of Micanite need")]
struct CommandLine {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Increments by native clients, and whether each of them counted exactly once
    Increments(increments::Options),
    /// A lossy, duplicating, reordering network between native clients and a server, by a seed
    Relay(relay::Options),
    /// A client's end of a fabric, which sends and receives what its standard input says
    Fabric(fabric::Options),
    /// GETs over UDP beside writers: every reply must be a value that its key had at that time
    Consistency(consistency::Options),
    /// Clients of all ports at the same time: each key's history must be linearizable
    Linearizability(linearizability::Options),
    /// One-sided reads beside writers and flushes: every value must be whole and not outdated
    OneSided(one_sided::Options),
}

fn main() {
    let result = match CommandLine::parse().tool {
        Tool::Increments(options) => increments::run(&options),
        Tool::Relay(options) => relay::run(&options),
        Tool::Fabric(options) => fabric::run(&options),
        Tool::Consistency(options) => consistency::run(&options),
        Tool::Linearizability(options) => linearizability::run(&options),
        Tool::OneSided(options) => one_sided::run(&options),
    };
    if let Err(error) = result {
        eprintln!("micanite-test-tools: {error}");
        std::process::exit(1);
    }
}
