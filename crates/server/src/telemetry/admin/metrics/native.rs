//! The native protocol: nothing where it is not spoken.

use micanite_net::xdp::FilterCounters;

use super::super::exposition::Exposition;
use super::families;
use crate::native::BURST_PLACES;
use crate::shared::Shared;
use crate::telemetry::stats::FILTER;
use crate::telemetry::table::Counter;

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    let Some(native) = &shared.native else {
        return;
    };
    to.family(&families::NATIVE_EVENTS);
    for (worker, of) in native.counters.iter().enumerate() {
        of.each(|event, count| to.sample(&[("worker", &worker), ("event", &event)], count));
    }
    if !native.frames.is_empty() {
        to.family(&families::NATIVE_FRAMES);
    }
    for (worker, of) in native.frames.iter().enumerate() {
        of.each(|event, count| to.sample(&[("worker", &worker), ("event", &event)], count));
    }
    write_filters(native.filters(), to);
    to.family(&families::NATIVE_BURSTS);
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

/// The filters of those ports that have one: the first of them need not be the first port.
fn write_filters(filters: impl Iterator<Item = (usize, FilterCounters)>, to: &mut Exposition) {
    let mut filters = filters.peekable();
    if filters.peek().is_some() {
        to.family(&families::NATIVE_FILTER_FRAMES);
    }
    for (number, of) in filters {
        for (event, _, count) in FILTER {
            to.sample(&[("port", &number), ("event", &event)], count(&of));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_their_own_family_behind_a_port_without_one() {
        let mut text = Exposition::default();
        text.family(&families::NATIVE_FRAMES);
        write_filters([(1, FilterCounters::default())].into_iter(), &mut text);
        let text = text.finish();
        let sample = "micanite_native_filter_frames_total{port=\"1\",event=\"filter_redirected\"} 0\n";
        assert!(text.contains(sample), "{text}");
        assert!(!text.contains("micanite_native_frames_total{"), "{text}");
    }
}
