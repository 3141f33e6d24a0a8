//! GETs answered in the kernel: nothing where `--kernel-get` does not ask for it.

use micanite_kernel::Counters;

use super::super::exposition::{Exposition, Type};
use crate::shared::Server;

pub(super) fn write(server: &Server, to: &mut Exposition) {
    let Some(state) = &server.kernel_get else {
        return;
    };
    to.one(
        "micanite_kernel_get_on",
        Type::Gauge,
        "Whether the program in the kernel is attached to all of its interfaces.",
        u8::from(state.is_on()),
    );
    to.one(
        "micanite_kernel_get_paused",
        Type::Gauge,
        "Whether it answers nothing just now, for somebody watches requests.",
        u8::from(state.is_paused()),
    );
    let counts: Vec<(&str, Counters)> = match state.program() {
        Some(program) => program.counters_of_interfaces().collect(),
        None => {
            let names = server.settings.kernel_get.iter().flat_map(|of| &of.interfaces);
            names.map(|name| (name.as_str(), Counters::default())).collect()
        }
    };
    to.family(
        "micanite_kernel_get_passed_total",
        Type::Counter,
        "Datagrams for the server that the program passed on, by the reason.",
    );
    for (interface, count) in &counts {
        count.each(|name, number| {
            if let Some(reason) = name.strip_prefix("passed_") {
                to.sample(&[("interface", interface), ("reason", &reason)], number);
            }
        });
    }
    to.family(
        "micanite_kernel_get_events_total",
        Type::Counter,
        "What the program has done, by the names of `stats kernel`.",
    );
    for (interface, count) in &counts {
        count.each(|event, number| {
            if !event.starts_with("passed_") {
                to.sample(&[("interface", interface), ("event", &event)], number);
            }
        });
    }
}
