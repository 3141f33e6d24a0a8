//! `/metrics`. Counters count from the start of the process: `stats reset` does not touch them.
//! docs/metrics.md lists them.

mod commands;
mod engine;
mod kernel;
mod latency;
mod native;
mod process;
mod recorder;
mod routes;
mod udp;
mod workers;

use super::exposition::Exposition;
use super::state::State;

/// All metrics; of a server that has not started yet, those of the process.
pub(super) fn metrics(state: &State) -> String {
    let mut to = Exposition::default();
    process::write(state, &mut to);
    if let Some((shared, _)) = state.running() {
        commands::write(shared, &mut to);
        latency::write(shared, &mut to);
        workers::write(shared, &mut to);
        engine::write(shared, &mut to);
        routes::write(shared, &mut to);
        native::write(shared, &mut to);
        udp::write(shared, &mut to);
        kernel::write(shared, &mut to);
        recorder::write(shared, &mut to);
    }
    to.finish()
}
