//! A plan as text that a shell takes: words are comments, the rest are commands.

use std::io::{self, Write};

use super::plan::{Plan, Step};
use crate::machine::cpus;
use crate::machine::facts::{InterfaceFacts, MachineFacts};

/// Writes a line. A reader that closes the output does not want it.
pub fn say(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Prints what holds for all interfaces.
pub fn introduction(machine: &MachineFacts) {
    say("# As root. What is set is lost when the interface or the machine starts anew.");
    warnings(machine);
}

/// Prints warnings about what works against a plan.
pub fn warnings(machine: &MachineFacts) {
    if machine.irqbalance {
        say("# irqbalance runs and moves interrupts again: stop it, or ban these (--banirq).");
    }
}

/// Prints the plan of one interface.
pub fn plan(facts: &InterfaceFacts, plan: &Plan) {
    say("");
    say(&format!("# {}", title(facts)));
    for line in places(plan) {
        say(&format!("# {line}"));
    }
    for step in &plan.steps {
        for line in describe(step) {
            say(&format!("# {line}"));
        }
        for action in &step.actions {
            say(&action.command.to_string());
        }
    }
    for note in &plan.notes {
        say(&format!("# note: {note}"));
    }
}

/// Text of the queues and their users.
pub fn places(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for (worker, queue) in &plan.layout.workers {
        lines.push(format!(
            "  worker {}: UDP port {} -> queue {queue} -> CPU {}",
            worker.number, worker.port, worker.cpu
        ));
    }
    if plan.layout.others > 0 {
        let queues: Vec<_> = (0..plan.layout.others).collect();
        lines.push(format!(
            "  everything else: queues {} -> CPUs {}",
            cpus::list(&queues),
            cpus::list(plan.layout.other_cpus.iter().take(plan.layout.others))
        ));
    }
    lines
}

/// The interface, in one line.
pub fn title(facts: &InterfaceFacts) -> String {
    let driver = match &facts.driver {
        Some(driver) => format!("driver {driver}"),
        None => "no driver".into(),
    };
    let node = facts.node.map_or_else(|| "not known".into(), |node| node.to_string());
    let queues = count(facts.queues, "receive queue");
    format!("{}: {driver}, NUMA node {node}, {queues} now", facts.name)
}

pub fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Text of the state of a step.
pub fn describe(step: &Step) -> Vec<String> {
    let name = step.subject.name();
    let mut lines = Vec::new();
    if !step.actions.is_empty() {
        lines.push(format!("{name}: will set: {}", step.text));
    } else if step.cannot.is_none() && step.later.is_none() {
        lines.push(format!("{name}: fine already: {}", step.text));
    }
    lines.extend(step.later.iter().map(|text| format!("{name}: later: {text}")));
    lines.extend(step.cannot.iter().map(|text| format!("{name}: not possible: {text}")));
    lines
}
