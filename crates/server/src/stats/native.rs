//! `stats native`: what the native protocol has seen, of each worker.

use super::Lines;
use crate::limits::STATS_WORKERS_MAX;
use crate::session::Output;
use crate::shared::Shared;
use crate::stats::Counter;

/// Writes them, without the final `END`; nothing where the protocol is not spoken.
pub fn native(shared: &Shared, output: &mut Output<'_>) {
    let Some(native) = &shared.native else {
        return;
    };
    let mut lines = Lines::new(output);
    lines.stat(
        "native_port",
        native.cores.first().map_or(0, |core| core.port),
    );
    lines.stat("generation", native.generation(&shared.cache));
    lines.stat("payload_bytes", native.payload_bytes);
    let workers = native.counters.iter().zip(&shared.counters);
    // Those of frames make the lines of a worker half as many again.
    let workers_max = match native.frames.is_empty() {
        true => STATS_WORKERS_MAX,
        false => STATS_WORKERS_MAX / 2,
    };
    for (number, (counters, general)) in workers.enumerate().take(workers_max) {
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
