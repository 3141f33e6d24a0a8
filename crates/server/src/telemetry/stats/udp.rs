//! `stats udp`: what became of datagrams of memcached's protocols, of all workers together.

use super::Lines;
use crate::output::Output;
use crate::shared::Server;
use crate::udp::UdpCounters;

/// Writes it, without the final `END`; nothing where there is no UDP.
pub fn udp(server: &Server, output: &mut Output<'_>) {
    let (Some(udp), Some(settings)) = (&server.shared.udp, &server.settings.udp) else {
        return;
    };
    let mut lines = Lines::new(output);
    lines.stat("udp_port", udp.port());
    lines.stat("udp_allow", &settings.allow);
    UdpCounters::each_sum(&udp.counters, |name, count| lines.stat(name, count));
}
