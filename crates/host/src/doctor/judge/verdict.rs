//! The best port, and whether it works.

use super::recipe::recipe;
use super::{MACHINE, MEMORY, XDP, common};
use crate::doctor::facts::Facts;
use crate::doctor::report::{Grade, Port, Section, State, Verdict};

/// The verdict; of the ports, the best comes first.
pub fn verdict(facts: &Facts, sections: &[Section], ports: &[Port]) -> Verdict {
    let can_be = |port: &&Port| {
        let own = [common(port.is_dpdk), port.section];
        own.iter().all(|at| !sections[*at].has(State::Impossible))
    };
    let Some(best) = ports.iter().find(can_be) else {
        return nothing(facts, sections, ports);
    };
    // The needs of a DPDK device are in one section.
    let mut places = vec![common(best.is_dpdk), best.section];
    places.dedup();
    let needed: Vec<_> = places.iter().map(|at| &sections[*at]).collect();
    let better: Vec<_> =
        [&sections[MACHINE], &sections[MEMORY]].into_iter().chain(needed.iter().copied()).collect();
    let mut text = format!("best port here: {} ({})", best.name, best.grade.name());
    text += match (best.works, best.grade) {
        (true, Grade::Generic) => {
            ". It works now, but is hardly better than the kernel's UDP sockets (--native without --bypass)"
        }
        (true, _) => ". It works now",
        (false, _) => ". Something is missing for it that can be had",
    };
    let findings = needed.iter().flat_map(|it| &it.findings);
    for finding in findings.filter(|it| it.state == State::Missing && it.commands.is_empty()) {
        text += &format!("; {}", finding.text);
    }
    Verdict {
        works: best.works,
        best: Some(best.clone()),
        text,
        recipe: recipe(facts, &needed, &better, best),
    }
}

/// There is no port to be had.
fn nothing(facts: &Facts, sections: &[Section], ports: &[Port]) -> Verdict {
    let mut findings = sections[XDP].findings.iter();
    let reason = findings.find(|it| it.state == State::Impossible);
    let text = match (ports, reason) {
        ([], _) => "no port here: there is no interface that could be one",
        (_, Some(finding)) => &format!("no port here: {}", finding.text),
        _ => "no port here",
    };
    let outside = match facts.process.container {
        Some(_) => ". Ask on the host, outside of the container, what could be given to it",
        None => "",
    };
    Verdict {
        works: false,
        best: None,
        text: format!(
            "{text}{outside}. The kernel's UDP sockets serve the native protocol everywhere: micanite serve \
             --native 11300"
        ),
        recipe: Vec::new(),
    }
}
