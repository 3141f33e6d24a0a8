//! Judges facts: findings and a verdict. A pure function.

mod drivers;
mod fabric;
mod interface;
mod machine;
mod recipe;
mod verdict;

use std::cmp::Reverse;

use super::facts::Facts;
use super::report::{Report, Section, State};

/// Indexes of the sections that every report has.
pub const MACHINE: usize = 0;
pub const MEMORY: usize = 1;
pub const XDP: usize = 2;
pub const DPDK: usize = 3;

/// The section about the needs of all ports of a kind.
pub const fn common(is_dpdk: bool) -> usize {
    if is_dpdk { DPDK } else { XDP }
}

/// Judges the facts of a machine.
pub fn judge(facts: &Facts) -> Report {
    let mut sections = vec![
        machine::machine(facts),
        machine::memory(facts),
        machine::af_xdp(facts),
        machine::dpdk(facts),
        fabric::fabric(facts),
    ];
    let mut ports = machine::dpdk_ports(facts);
    for interface in &facts.interfaces {
        let mut section = Section::new(interface::title(interface));
        if let Some(mut port) = interface::interface(facts, interface, &mut section) {
            port.section = sections.len();
            ports.push(port);
        }
        sections.push(section);
    }
    let has = |at: usize, state| sections[at].has(state);
    for port in &mut ports {
        let mut needed = [common(port.is_dpdk), port.section].into_iter();
        port.works = needed.all(|at| !has(at, State::Missing) && !has(at, State::Impossible));
    }
    // The best comes first, but for those that cannot be had. Among equals, one that works as things are.
    ports.sort_by_key(|port| {
        let hopeless = has(common(port.is_dpdk), State::Impossible);
        Reverse((!hopeless, port.grade, port.works))
    });
    Report { verdict: verdict::verdict(facts, &sections, &ports), sections, ports }
}
