//! The command line of `micanite`: what can be said, for the program itself and for what is generated
//! from it (`examples/generate.rs`: the manual pages and the completions of shells).

use std::backtrace::{Backtrace, BacktraceStatus};

use clap::{Parser, Subcommand};
use micanite_host::{ControlOptions, TopOptions};
use micanite_load::LoadOptions;
use micanite_plan::PlanOptions;
use micanite_server::configuration::{Arguments, tables};

mod completions;
mod reference;
mod suggestion;
mod trace;

pub use completions::completed;
pub use reference::{REFERENCE_COMMAND, reference, statistics};
pub use suggestion::{hidden_names, suggest};
pub use trace::{TraceCommand, TraceOptions, trace};

const MORE: &str = "These are the options that people use; --help shows all.";

/// Sources of options: the end of the help of `serve`.
pub const SOURCES: &str = "\
Every option may also come from the environment (MICANITE_MEMORY_LIMIT=1g for --memory-limit 1g)
or from the file that --config names (memory-limit = \"1g\"; in its section [native], busy-poll = 50).
The command line wins, then the environment, then the file.";

const CONTROL: &str = "\
The server listens on a Unix socket that its own user alone can reach; it prints the path at start.
Exit status: 0 done, 1 refused (the reason is on standard error), 64 usage.";

const TOP: &str = "\
Keys: q quits, p pauses, + and - change the interval, Tab chooses a table, arrows sort and scroll it, ? helps.
Exit status: 0 done, 1 no server there (the reason is on standard error), 64 usage.";

const LOAD: &str = "\
Exit status: 0 done, 1 wrong values, no reply at all or nothing found within the bound, 64 usage.
docs/load.md explains the figures.";

const TRACE: &str = "\
Exit status: 0 done, 1 the trace cannot be read or something failed, 64 usage.
docs/traces.md has the formats, and what the figures mean.";

const PLAN: &str = "\
Exit status: 0 done, 1 nothing carries the load (the reason is on standard error) or a failure, 64 usage.
docs/plan.md explains the model, and where its figures come from.";

fn serve_help() -> String {
    format!("{}\n{SOURCES}", tables())
}

/// A memcached-compatible in-memory cache and store.
#[derive(Debug, Parser)]
#[command(name = "micanite", version, max_term_width = 100)]
pub struct CommandLine {
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// What `micanite` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the memcached protocol.
    #[command(version, args_override_self = true, after_help = MORE, after_long_help = serve_help())]
    Serve(Box<Arguments>),
    /// Ask a running server for something, or change how it works.
    #[command(version, after_help = CONTROL)]
    Ctl(ControlOptions),
    /// Watch a server live in a terminal: rates, hit ratio, latency, memory, workers, hot keys.
    #[command(version, after_help = TOP)]
    Top(TopOptions),
    /// Load servers and measure them: throughput, loss, latency; every value is checked.
    #[command(version, args_override_self = true, after_help = LOAD)]
    Load(Box<LoadOptions>),
    /// Plan servers for a load: cores, memory, mode, number, and what binds first.
    #[command(version, after_help = PLAN)]
    Plan(Box<PlanOptions>),
    /// See what a trace of requests tells: its requests, statistics, miss ratios.
    #[command(version, after_help = TRACE)]
    Trace(TraceOptions),
    /// Print the completions of a shell: source <(micanite completions bash)
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Makes a panic in any thread end the process at once, as `panic = "abort"` does in release builds: the
/// tests run another build, which unwinds, and must see the same. A server's message goes by its log, because
/// nobody may read standard error.
pub fn end_at_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let trace = Backtrace::capture();
        let mut text = format!("thread '{}' {panic}", thread.name().unwrap_or("unnamed"));
        if trace.status() == BacktraceStatus::Captured {
            text = format!("{text}\n{trace}");
        }
        if !micanite_server::report_panic(&text) {
            report(panic);
        }
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const CHILD: &str = "MICANITE_TEST_PANICS";
    const SIGABRT: i32 = 6;

    /// A panic in a thread that nobody waits for ends the process, by SIGABRT, with its message.
    #[test]
    fn a_panic_in_a_thread_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            super::end_at_a_panic();
            let _ = std::thread::spawn(|| panic!("on purpose")).join();
            std::process::exit(0);
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::a_panic_in_a_thread_ends_the_process"])
            .arg("--nocapture")
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.signal(), Some(SIGABRT), "{said}");
        assert!(said.contains("on purpose"), "{said}");
    }
}
