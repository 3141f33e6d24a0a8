//! `micanite top`: a server, live in a terminal.
//!
//! ```text
//!  Source  asks a server, on a thread of its own        Sample  counters as they stand
//!  View    two samples: rates, ratios, quantiles        Screen  head, tables, keys --> terminal
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `source` | asks Micanite's control socket, or any memcached by `stats` |
//! | `sample`, `metrics`, `stats` | counters of a server, from Prometheus' text or from `stats` |
//! | `view` | the head and the tables, as text |
//! | `screen` | draws a view into whatever room there is |
//! | `live` | the loop: keys, signals, intervals, a server that goes away |
//! | `text` | numbers for people; text of servers without control characters |

mod live;
mod metrics;
mod sample;
mod screen;
mod source;
mod stats;
#[cfg(test)]
mod tests;
mod text;
mod view;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use micanite_control::stderr;

use crate::ctl::ControlPlace;
use source::Source;
use view::View;

/// The server is not there, or the terminal is of no use.
const EXIT_FAILED: u8 = 1;
/// The command line is wrong.
const EXIT_TOP_USAGE: u8 = 64;
/// Seconds between two looks.
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// Options of `top`.
#[derive(Args, Clone, Debug)]
pub struct TopOptions {
    /// Any memcached, by HOST:PORT or by the path of its Unix socket [default: the Micanite on this machine,
    /// by its control socket, which tells more]
    #[arg(value_name = "SERVER", conflicts_with_all = ["port", "socket"])]
    server: Option<String>,
    /// TCP port of the Micanite on this machine [default: 11211]
    #[arg(short = 'p', long, value_name = "N", conflicts_with = "socket")]
    port: Option<u16>,
    /// Control socket of the Micanite [default: MICANITE_CONTROL_SOCKET, unless there is a port]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print what one interval shows as plain text, and end; so it does where the output is no terminal
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if INTERVAL_S.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// Shows a server until the user leaves. Returns 0: done; 1: no server there; 64: usage.
pub fn top(options: TopOptions) -> ExitCode {
    let failed = |reason: String, status: u8| {
        stderr::say(format_args!("micanite: {reason}"));
        ExitCode::from(status)
    };
    let source = match &options.server {
        Some(server) => Source::memcached(server),
        None => Ok(Source::control(ControlPlace::new(options.port, options.socket.clone()))),
    };
    match source {
        Ok(source) => run(&options, source).unwrap_or_else(|reason| failed(reason, EXIT_FAILED)),
        Err(reason) => failed(reason, EXIT_TOP_USAGE),
    }
}

fn run(options: &TopOptions, mut source: Source) -> Result<ExitCode, String> {
    let first = source.sample()?;
    if !options.once && io::stdout().is_terminal() {
        return live::run(source, first, options.interval);
    }
    std::thread::sleep(options.interval);
    let second = source.sample()?;
    let text = View::new(&source.name(), Some(&first), &second).text();
    // A reader that closes the output does not want the text.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}
