//! `/metrics`. Counters count from the start of the process: `stats reset` does not touch them.
//! docs/metrics.md lists them.

mod commands;
mod engine;
mod fabric;
mod kernel;
mod latency;
mod local;
mod native;
mod numa;
mod process;
mod recorder;
mod routes;
mod security;
mod udp;
mod workers;

use super::exposition::Exposition;
use super::state::State;

pub(super) use latency::transports;

/// All metrics; of a server that has not started yet, those of the process.
pub(super) fn metrics(state: &State) -> String {
    let mut to = Exposition::default();
    process::write(state, &mut to);
    if let Some((server, _)) = state.running() {
        commands::write(&server.shared, &mut to);
        latency::write(&server.shared, &mut to);
        workers::write(server, &mut to);
        security::write(server, &mut to);
        engine::write(server, &mut to);
        routes::write(server, &mut to);
        native::write(&server.shared, &mut to);
        udp::write(&server.shared, &mut to);
        kernel::write(server, &mut to);
        numa::write(server, &mut to);
        local::write(&server.shared, &mut to);
        fabric::write(server, &mut to);
        recorder::write(&server.shared, &mut to);
    }
    to.finish()
}
