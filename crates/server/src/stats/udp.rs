//! `stats udp`: what became of datagrams of memcached's protocols, of all workers together.

use super::Lines;
use crate::output::Output;
use crate::shared::Shared;
use crate::udp::UdpCounters;

/// Writes it, without the final `END`; nothing where there is no UDP.
pub fn udp(shared: &Shared, output: &mut Output<'_>) {
    let (Some(udp), Some(settings)) = (&shared.udp, &shared.settings.udp) else {
        return;
    };
    let mut lines = Lines::new(output);
    lines.stat("udp_port", udp.port());
    lines.stat("udp_allow", &settings.allow);
    UdpCounters::each_sum(&udp.counters, |name, count| lines.stat(name, count));
}
