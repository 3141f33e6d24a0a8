//! `stats native`: what the native protocol has seen, of each worker.

use micanite_net::xdp::FilterCounters;

use super::Lines;
use crate::limits::STATS_WORKERS_MAX;
use crate::output::Output;
use crate::shared::Shared;
use crate::telemetry::table::Counter;
use crate::telemetry::table::group::Row;

/// Writes them, without the final `END`; nothing where the protocol is not spoken.
pub fn native(shared: &Shared, output: &mut Output<'_>) {
    let Some(native) = &shared.native else {
        return;
    };
    let mut lines = Lines::new(output);
    lines.stat("native_port", native.cores.first().map_or(0, |core| core.port));
    lines.stat("generation", native.generation(&shared.cache));
    lines.stat("payload_bytes", native.payload_bytes);
    for (number, of) in native.filters() {
        for (name, _, count) in FILTER {
            lines.stat(&format!("port_{number}:{name}"), count(&of));
        }
    }
    let workers = native.counters.iter().zip(&shared.counters);
    // Counters of frames make the lines of a worker half as many again.
    let workers_max = match native.frames.is_empty() {
        true => STATS_WORKERS_MAX,
        false => STATS_WORKERS_MAX / 2,
    };
    for (number, (counters, general)) in workers.enumerate().take(workers_max) {
        if let Some((_, its)) = native.interface_of(number).filter(|_| native.interfaces.len() > 1) {
            lines.stat(&format!("{number}:interface"), &its.name);
        }
        counters.each(|name, count| lines.stat(&format!("{number}:{name}"), count));
        for (place, count) in counters.bursts.iter().map(Counter::get).enumerate() {
            if count > 0 {
                lines.stat(&format!("{number}:bursts_to_{}", 1u64 << place), count);
            }
        }
        if let Some(frames) = native.frames.get(number) {
            frames.each(|name, count| lines.stat(&format!("{number}:{name}"), count));
        }
        let (housekeeping, cpu) = (general.housekeeping_ns.get(), general.cpu_ns.get());
        lines.stat(&format!("{number}:housekeeping_us"), housekeeping / 1000);
        lines.stat(&format!("{number}:cpu_us"), cpu / 1000);
    }
}

/// The numbers of a filter in front of a port.
pub(crate) const FILTER: [Row<FilterCounters>; 8] = [
    ("filter_redirected", "Frames that came to a worker.", |of| of.redirected),
    ("filter_no_socket", "Frames for the port on a queue that nobody serves.", |of| of.no_socket),
    ("filter_other_protocol", "Frames of another protocol, left to the kernel.", |of| of.other_protocol),
    ("filter_other_port", "Frames for another port, left to the kernel.", |of| of.other_port),
    ("filter_other_address", "Frames for another address, left to the kernel.", |of| of.other_address),
    ("filter_fragments", "Parts of longer packets, left to the kernel.", |of| of.fragments),
    ("filter_options", "Frames with options or extension headers, left to the kernel.", |of| of.options),
    ("filter_short", "Frames shorter than their headers, left to the kernel.", |of| of.short),
];
