//! memcached's protocols over UDP: nothing where they are not spoken.

use super::super::exposition::{Exposition, Type};
use crate::shared::Shared;
use crate::udp::UdpCounters;

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    let Some(udp) = &shared.udp else {
        return;
    };
    to.family(
        "micanite_udp_events_total",
        Type::Counter,
        "What was seen of memcached's datagrams, by the names of `stats udp`.",
    );
    UdpCounters::each_sum(&udp.counters, |event, count| {
        to.sample(&[("event", &event)], count);
    });
}
