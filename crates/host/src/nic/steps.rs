//! The steps of a plan, one function each.

use super::command::{Action, Command};
use super::layout::Layout;
use super::plan::{Step, Subject};
use super::print::count;
use crate::machine::cpus::{self, Cpus};
use crate::machine::facts::{Channels, Family, Feature, InterfaceFacts, Kind, MachineFacts, PortRule};

/// The consequence when datagrams do not go to the queue of their worker.
const LOCALITY_LOST: &str =
    "The kernel still finds the worker's socket by the port: only cache locality is lost";

/// Sets the number of queues to that of the layout.
pub fn queues(facts: &InterfaceFacts, layout: &Layout) -> Step {
    let want = layout.queues;
    let mut step = match &facts.channels {
        Ok(now) if now.receive == want && now.transmit == want => {
            Step::new(Subject::Queues, format!("{want}, of {} at most", now.queues_max))
        }
        Ok(now) => {
            let text = format!("{want} instead of {}; the link may go down for a moment", now.receive);
            let mut step = Step::new(Subject::Queues, text);
            step.actions.push(Action {
                command: set_channels(&facts.name, now.combined, want, want),
                back: Some(back_to(&facts.name, now)),
            });
            step
        }
        Err(reason) => {
            let queues = count(facts.queues, "receive queue");
            let text = format!("{queues}, and no way to change that ({reason})");
            Step::new(Subject::Queues, text)
        }
    };
    let own = layout.queues - layout.others;
    if own < layout.workers.len() {
        step.cannot = Some(format!(
            "{} workers share {}: datagrams of one come through the queue and the CPU of another. \
             {LOCALITY_LOST}",
            layout.workers.len(),
            count(own, "queue")
        ));
    }
    step
}

fn set_channels(name: &str, combined: bool, receive: usize, transmit: usize) -> Command {
    let (receive, transmit) = (receive.to_string(), transmit.to_string());
    match combined {
        true => Command::ethtool(&["-L", name, "combined", &receive]),
        false => Command::ethtool(&["-L", name, "rx", &receive, "tx", &transmit]),
    }
}

fn back_to(name: &str, now: &Channels) -> Command {
    set_channels(name, now.combined, now.receive, now.transmit)
}

/// Datagrams to one port that arrive together cross the kernel's stack together.
pub fn offload(facts: &InterfaceFacts) -> Step {
    let step = Step::new(Subject::Offload, "on");
    switched_on(facts, "gro", facts.gro, step, "Every datagram crosses the kernel's stack alone")
}

/// Flow rules have a switch of their own, which may be off. None where there are no flow rules.
pub fn rule_switch(facts: &InterfaceFacts) -> Option<Step> {
    let step = Step::new(Subject::RuleSwitch, "on");
    facts.rules.as_ref().ok()?;
    match facts.ntuple {
        // Some drivers take rules all the same: the rules show it.
        None => None,
        Some(feature) if feature.fixed => None,
        ntuple => Some(switched_on(facts, "ntuple", ntuple, step, LOCALITY_LOST)),
    }
}

/// A feature that should be on.
fn switched_on(
    facts: &InterfaceFacts,
    option: &str,
    feature: Option<Feature>,
    mut step: Step,
    otherwise: &str,
) -> Step {
    match feature {
        Some(feature) if feature.on => step,
        Some(feature) if !feature.fixed => {
            step.actions.push(Action {
                command: Command::ethtool(&["-K", &facts.name, option, "on"]),
                back: Some(Command::ethtool(&["-K", &facts.name, option, "off"])),
            });
            step
        }
        Some(_) => step.with_cannot(format!("this driver keeps it off. {otherwise}")),
        None => step.with_cannot(format!("this driver does not have it. {otherwise}")),
    }
}

/// A rule for each port, over IPv4 and IPv6.
pub fn rules(facts: &InterfaceFacts, layout: &Layout) -> Step {
    let mut step = Step::new(Subject::Rules, "each port to its queue, over IPv4 and IPv6");
    let present = match &facts.rules {
        Ok(present) => present,
        Err(reason) => {
            return step.with_cannot(format!("this driver has none ({reason}). {LOCALITY_LOST}"));
        }
    };
    let mut taken = Vec::new();
    for (worker, queue) in &layout.workers {
        for family in [Family::Udp4, Family::Udp6] {
            let same_port = |rule: &&_| matches_port(rule, family, worker.port);
            match present.iter().find(same_port) {
                Some(rule) if rule.queue == *queue => {}
                Some(rule) => taken.push(rule.id),
                None => step.actions.push(Action {
                    command: Command::Rule {
                        interface: facts.name.clone(),
                        family,
                        port: worker.port,
                        queue: *queue,
                    },
                    back: None,
                }),
            }
        }
    }
    if !taken.is_empty() {
        let ids: Vec<_> = taken.iter().map(u32::to_string).collect();
        step.cannot = Some(format!(
            "rules {ids} take these ports to other queues, and are left alone. If they are from \
             an earlier run: micanite ctl nic {} --undo {ids}",
            facts.name,
            ids = ids.join(",")
        ));
    }
    step
}

fn matches_port(rule: &PortRule, family: Family, port: u16) -> bool {
    rule.family == family && rule.port == port
}

/// Keeps everything without a rule off the workers' queues, where that is possible.
pub fn spreading(facts: &InterfaceFacts, layout: &Layout, changing: bool) -> Step {
    let subject = Subject::Spreading;
    if layout.others > 0 {
        let queues: Cpus = (0..layout.others).collect();
        let text = format!("spread over queues {} only", cpus::list(&queues));
        let mut step = Step::new(subject, text);
        if changing || facts.rss.as_ref() != Ok(&queues) {
            let others = layout.others.to_string();
            step.actions.push(Action {
                command: Command::ethtool(&["-X", &facts.name, "equal", &others]),
                back: Some(Command::ethtool(&["-X", &facts.name, "default"])),
            });
        }
        return step;
    }
    let shared = "comes through the workers' queues too";
    if facts.rules.is_err() {
        Step::new(subject, "spread over all queues, as what is for the workers without flow rules")
    } else if layout.other_cpus.is_empty() {
        Step::new(subject, format!("{shared}: every CPU has a worker"))
    } else if let Err(reason) = &facts.rss {
        let reason = format!("{shared}: it cannot be kept away ({reason})");
        Step::new(subject, "").with_cannot(reason)
    } else {
        Step::new(subject, format!("{shared}: there are no queues left for it"))
    }
}

/// The interrupts of a queue come to the CPU that reads it.
pub fn interrupts(facts: &InterfaceFacts, layout: &Layout, changing: bool) -> Step {
    let mut step = Step::new(Subject::Interrupts, "each queue's on the CPU that reads it");
    if facts.interrupts.is_empty() {
        let reason = match (&facts.kind, facts.interrupt_names.as_slice()) {
            (Kind::Device, []) => "its interrupts are not listed".into(),
            (Kind::Device, names) => format!("its interrupts are not known ({})", names.join(" ")),
            _ => "it has none".into(),
        };
        return step.with_cannot(format!("{reason}. {LOCALITY_LOST}"));
    }
    if changing {
        step.later = Some("they are known once there are as many queues: run this again then".into());
        return step;
    }
    let others = layout.queues_of_others();
    let others = others.map(|(queue, cpu)| (queue, Cpus::from([cpu])));
    let mut missing = Vec::new();
    for (queue, cpus) in layout.queues_of_workers().chain(others) {
        let mut found = facts.interrupts.iter().filter(|it| it.queue == queue).peekable();
        if found.peek().is_none() {
            missing.push(queue);
        }
        for interrupt in found.filter(|it| !cpus.iter().eq(&it.cpus)) {
            let path = format!("/proc/irq/{}/smp_affinity_list", interrupt.number);
            step.actions.push(Action {
                command: Command::write(&path, cpus::list(&cpus)),
                back: Some(Command::write(&path, cpus::list(&interrupt.cpus))),
            });
        }
    }
    if !missing.is_empty() {
        let missing = cpus::list(&missing);
        step.cannot = Some(format!("none is known of queues {missing}. {LOCALITY_LOST}"));
    }
    step
}

/// A worker sends through the queue that it receives from, so that no two CPUs share one.
pub fn senders(facts: &InterfaceFacts, layout: &Layout, machine: &MachineFacts, changing: bool) -> Step {
    let mut step = Step::new(Subject::Senders, "each worker sends through its queue");
    if layout.queues == 1 || (facts.transmit_cpus.is_empty() && !changing) {
        step.text = "there is nothing to choose".into();
        return step;
    }
    let others = layout.senders_of_others(machine);
    let mut missing = Vec::new();
    for (queue, cpus) in layout.queues_of_workers().chain(others) {
        let now = facts.transmit_cpus.get(&queue);
        match now {
            Some(now) if *now == cpus && !changing => continue,
            None if !changing => {
                missing.push(queue);
                continue;
            }
            _ => {}
        }
        let path = format!("/sys/class/net/{}/queues/tx-{queue}/xps_cpus", facts.name);
        step.actions.push(Action {
            command: Command::write(&path, cpus::mask(&cpus)),
            back: now.map(|now| Command::write(&path, cpus::mask(now))),
        });
    }
    if !missing.is_empty() {
        let missing = cpus::list(&missing);
        step.cannot = Some(format!("there are no transmit queues {missing}: CPUs share others"));
    }
    step
}
