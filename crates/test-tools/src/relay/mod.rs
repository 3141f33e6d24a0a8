//! A bad network between native clients and a server: loses, duplicates, delays and reorders
//! datagrams, the same ones for the same seed and order of arrival.
//!
//! | file | what |
//! |---|---|
//! | `faults.rs` | what becomes of a datagram |
//! | `queue.rs` | datagrams that wait for their time |
//! | `directory.rs` | the server's ports in directory replies become the relay's |
//! | `ports.rs` | the sockets: one for each port, one for each client towards the server |
//! | `run.rs` | the loop |
//!
//! A client appears to the server under one address, whatever ports it uses, so its cookie holds
//! for all of them. TCP does not pass through here.

mod directory;
mod faults;
mod ports;
mod queue;
mod run;

use std::net::SocketAddr;

use clap::Args;

use crate::Result;

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// First address that clients are given; port 0 finds free ones
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The server's base port
    #[arg(long)]
    to: SocketAddr,
    /// Consecutive ports, each to its own of the server: as many as it has workers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    ports: u16,
    #[command(flatten)]
    faults: faults::Options,
}

/// Runs until SIGTERM or SIGINT. Prints the first address when it listens, the counters at the end.
pub(crate) fn run(options: &Options) -> Result<()> {
    let ports = ports::Ports::bind(options.listen, options.to, options.ports)?;
    run::Relay::new(ports, faults::Faults::new(&options.faults)?)?.run()
}
