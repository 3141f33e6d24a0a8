//! memcached's protocols over UDP: nothing where they are not spoken.

use super::super::exposition::Exposition;
use super::families;
use crate::shared::Shared;
use crate::udp::UdpCounters;

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    let Some(udp) = &shared.udp else {
        return;
    };
    to.family(&families::UDP_EVENTS);
    UdpCounters::each_sum(&udp.counters, |event, count| {
        to.sample(&[("event", &event)], count);
    });
}
