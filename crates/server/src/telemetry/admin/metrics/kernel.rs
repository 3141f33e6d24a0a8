//! GETs answered in the kernel: nothing where `--kernel-get` does not ask for it.

use micanite_kernel::Counters;

use super::super::exposition::Exposition;
use super::families;
use crate::shared::Server;

pub(super) fn write(server: &Server, to: &mut Exposition) {
    let Some(state) = &server.kernel_get else {
        return;
    };
    to.one(&families::KERNEL_GET_ON, u8::from(state.is_on()));
    to.one(&families::KERNEL_GET_PAUSED, u8::from(state.is_paused()));
    let counts: Vec<(&str, Counters)> = match state.program() {
        Some(program) => program.counters_of_interfaces().collect(),
        None => {
            let names = server.settings.kernel_get.iter().flat_map(|of| &of.interfaces);
            names.map(|name| (name.as_str(), Counters::default())).collect()
        }
    };
    to.family(&families::KERNEL_GET_PASSED);
    for (interface, count) in &counts {
        count.each(|name, number| {
            if let Some(reason) = name.strip_prefix("passed_") {
                to.sample(&[("interface", interface), ("reason", &reason)], number);
            }
        });
    }
    to.family(&families::KERNEL_GET_EVENTS);
    for (interface, count) in &counts {
        count.each(|event, number| {
            if !event.starts_with("passed_") {
                to.sample(&[("interface", interface), ("event", &event)], number);
            }
        });
    }
}
