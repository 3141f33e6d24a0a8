//! `micanite ctl record`: the recording that there is, or the last one.

use super::super::exposition::{Exposition, Type};
use crate::shared::Shared;

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    let numbers = shared.recorder.numbers();
    to.one(
        "micanite_recording",
        Type::Gauge,
        "Whether requests are recorded.",
        u8::from(numbers.is_recording),
    );
    to.one(
        "micanite_recorded_requests_total",
        Type::Counter,
        "Requests that were recorded; begins at 0 with each recording.",
        numbers.records,
    );
    to.one("micanite_recorded_bytes", Type::Gauge, "Length of the recording's file.", numbers.bytes);
    to.one(
        "micanite_recording_dropped_total",
        Type::Counter,
        "Requests of recorded keys that are missing; begins at 0 with each recording.",
        numbers.dropped,
    );
}
