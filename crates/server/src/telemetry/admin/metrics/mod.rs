//! `/metrics`. Counters count from the start of the process: `stats reset` does not touch them.
//! docs/reference/statistics.md lists them.

mod fabric;
mod families;
mod kernel;
mod latency;
mod local;
mod native;
mod numa;
mod process;
mod reference;
mod routes;
mod security;
mod table;
mod udp;
mod workers;

use super::exposition::Exposition;
use super::state::State;
use crate::shared::clock::seconds;
use crate::telemetry::table::View;

pub(super) use latency::transports;
pub use reference::reference;

/// All metrics; of a server that has not started yet, those of the process.
pub(super) fn metrics(state: &State) -> String {
    let mut to = Exposition::default();
    process::write(state, &mut to);
    if let Some((server, clock)) = state.running() {
        table::write(&View::new(server, seconds(clock.now_ms())), &mut to);
        latency::write(&server.shared, &mut to);
        workers::write(server, &mut to);
        security::write(server, &mut to);
        routes::write(server, &mut to);
        native::write(&server.shared, &mut to);
        udp::write(&server.shared, &mut to);
        kernel::write(server, &mut to);
        numa::write(server, &mut to);
        local::write(&server.shared, &mut to);
        fabric::write(server, &mut to);
    }
    to.finish()
}
