//! `micanite trace`: options in, what a trace tells out.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use micanite_load::{ReplayOptions, replay};
use micanite_workload::trace::simulate::{SimulateOptions, simulate};
use micanite_workload::trace::{
    CatOptions, ConvertOptions, GenerateOptions, StatsOptions, cat, convert, generate, stats,
};

/// The options of `micanite trace`.
#[derive(Args, Debug)]
pub struct TraceOptions {
    /// What is to be done with it.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// What can be done with a trace.
#[derive(Subcommand, Debug)]
pub enum TraceCommand {
    /// Print the requests of a trace.
    Cat(CatOptions),
    /// Write a trace as a recording, which is read faster.
    Convert(ConvertOptions),
    /// Print the requests of a published workload as a trace.
    Generate(GenerateOptions),
    /// What is in a trace: operations, sizes, rates, popularity, reuse, working set.
    Stats(StatsOptions),
    /// Simulate caches: misses against memory, and the memory to buy.
    Simulate(SimulateOptions),
    /// Send the requests of a trace to a live server.
    Replay(Box<ReplayOptions>),
}

/// Runs the command.
pub fn trace(options: &TraceOptions) -> ExitCode {
    let done = match &options.command {
        TraceCommand::Cat(options) => cat(options),
        TraceCommand::Convert(options) => convert(options),
        TraceCommand::Generate(options) => generate(options),
        TraceCommand::Stats(options) => stats(options),
        TraceCommand::Simulate(options) => simulate(options),
        TraceCommand::Replay(options) => replay(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell("trace"),
    }
}
