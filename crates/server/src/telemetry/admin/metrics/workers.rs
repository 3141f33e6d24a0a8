//! Levels of each worker, which are differences of its counters.

use super::super::exposition::Exposition;
use super::families;
use crate::shared::Server;

pub(super) fn write(server: &Server, to: &mut Exposition) {
    to.family(&families::WORKER_CONNECTIONS);
    for (worker, of) in server.shared.counters.iter().enumerate() {
        let open = of.connections_opened.get().saturating_sub(of.connections_closed.get());
        to.sample(&[("worker", &worker)], open);
    }
}
