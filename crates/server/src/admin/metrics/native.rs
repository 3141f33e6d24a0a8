//! The native protocol: nothing where it is not spoken.

use super::super::exposition::{Exposition, Type};
use crate::native::BURST_PLACES;
use crate::shared::Shared;
use crate::stats::{Counter, filter};

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    let Some(native) = &shared.native else {
        return;
    };
    to.family(
        "micanite_native_events_total",
        Type::Counter,
        "What the native protocol has seen, by the names of `stats native`.",
    );
    for (worker, of) in native.counters.iter().enumerate() {
        of.each(|event, count| to.sample(&[("worker", &worker), ("event", &event)], count));
    }
    if !native.frames.is_empty() {
        to.family(
            "micanite_native_frames_total",
            Type::Counter,
            "What ports around the kernel have seen, by the names of `stats native`.",
        );
    }
    for (worker, of) in native.frames.iter().enumerate() {
        of.each(|event, count| to.sample(&[("worker", &worker), ("event", &event)], count));
    }
    for (number, of) in native.filters() {
        if number == 0 {
            to.family(
                "micanite_native_filter_frames_total",
                Type::Counter,
                "What the filters in front of AF_XDP ports have done, by the names of `stats native`.",
            );
        }
        filter(&of, |event, count| {
            to.sample(&[("port", &number), ("event", &event)], count)
        });
    }
    to.family(
        "micanite_native_burst_datagrams",
        Type::Histogram,
        "Datagrams that a worker took at once.",
    );
    for (worker, of) in native.counters.iter().enumerate() {
        let counts: Vec<u64> = of.bursts.iter().map(Counter::get).collect();
        // The last place counts what is longer as well.
        let (bounded, above) = counts.split_at(BURST_PLACES - 1);
        let bounds = bounded.iter().enumerate();
        let bounds = bounds.map(|(place, count)| (1u64 << place, *count));
        let sum = of.datagrams_received.get();
        to.histogram(&[("worker", &worker)], bounds, above[0], sum);
    }
}
