//! Machines and interfaces to plan for.

mod plans;
mod shares;

use std::collections::BTreeMap;

use super::options::Worker;
use super::plan::{Plan, Request, Step, Subject, plan};
use super::share::{Place, Shares, of_server, share};
use super::spare;
use crate::machine::cpus::Cpus;
use crate::machine::facts::{
    Channels, Direction, Family, Feature, InterfaceFacts, Interrupt, Kind, MachineFacts, PortRule,
};

const ON: Feature = Feature { on: true, fixed: false };
const OFF: Feature = Feature { on: false, fixed: false };
const NEVER: Feature = Feature { on: false, fixed: true };
const NOT_SUPPORTED: &str = "Operation not supported";

/// A machine of so many nodes, each of so many CPUs.
fn machine(nodes: usize, cpus: usize) -> MachineFacts {
    let node = |node| (node, (node * cpus..(node + 1) * cpus).collect());
    MachineFacts {
        online: (0..nodes * cpus).collect(),
        nodes: (0..nodes).map(node).collect(),
        irqbalance: false,
    }
}

/// Workers on CPUs 0 and up, on ports 9000 and up.
fn workers(count: usize, machine: &MachineFacts) -> Vec<Worker> {
    let worker =
        |number| Worker { number, port: 9000 + number as u16, cpu: number, node: machine.node_of(number) };
    (0..count).map(worker).collect()
}

/// A NIC with flow rules whose driver runs `now` queues of at most `most`.
fn nic(name: &str, node: usize, now: usize, most: usize) -> InterfaceFacts {
    let interrupt =
        |queue| Interrupt { number: 100 + queue as u32, queue, direction: Direction::Both, cpus: vec![0] };
    InterfaceFacts {
        name: name.into(),
        driver: Some("ice".into()),
        kind: Kind::Device,
        node: Some(node),
        queues: now,
        channels: Ok(Channels { combined: true, queues_max: most, receive: now, transmit: now }),
        rules: Ok(Vec::new()),
        ntuple: Some(OFF),
        gro: Some(ON),
        rss: Ok((0..now).collect()),
        interrupts: (0..now).map(interrupt).collect(),
        interrupt_names: Vec::new(),
        transmit_cpus: (0..now).map(|queue| (queue, Cpus::new())).collect(),
        passed_on: Vec::new(),
        interrupt_delay_us: None,
        interrupt_delay_adaptive: false,
    }
}

/// An interface without a device behind it, of separate queues.
fn veth() -> InterfaceFacts {
    InterfaceFacts {
        driver: Some("veth".into()),
        kind: Kind::Virtual,
        node: None,
        channels: Ok(Channels { combined: false, queues_max: 4, receive: 4, transmit: 4 }),
        rules: Err(NOT_SUPPORTED.into()),
        ntuple: Some(NEVER),
        gro: Some(OFF),
        rss: Err(NOT_SUPPORTED.into()),
        interrupts: Vec::new(),
        ..nic("veth0", 0, 4, 4)
    }
}

fn plan_for(facts: &InterfaceFacts, workers: &[Worker], machine: &MachineFacts) -> Plan {
    plan_with(facts, workers, machine, false)
}

fn plan_with(facts: &InterfaceFacts, workers: &[Worker], machine: &MachineFacts, xdp: bool) -> Plan {
    let spare = spare(machine, workers, xdp);
    plan(facts, &Request { workers, spare: &spare, machine })
}

/// The commands of a step.
fn commands(plan: &Plan, subject: Subject) -> Vec<String> {
    let actions = step(plan, subject).actions.iter();
    actions.map(|action| action.command.to_string()).collect()
}

fn step(plan: &Plan, subject: Subject) -> &Step {
    let mut steps = plan.steps.iter();
    steps.find(|step| step.subject == subject).unwrap()
}

fn queues(plan: &Plan) -> Vec<usize> {
    plan.layout.workers.iter().map(|(_, queue)| *queue).collect()
}

/// Returns the interface as it is after all commands of a plan.
fn after(mut facts: InterfaceFacts, plan: &Plan, machine: &MachineFacts) -> InterfaceFacts {
    let count = plan.layout.queues;
    facts = InterfaceFacts {
        ntuple: Some(ON),
        rss: Ok((0..plan.layout.others).collect()),
        ..nic(&facts.name, facts.node.unwrap(), count, 64)
    };
    let others = plan.layout.queues_of_others();
    let others = others.map(|(queue, cpu)| (queue, Cpus::from([cpu])));
    for (queue, cpus) in plan.layout.queues_of_workers().chain(others) {
        facts.interrupts[queue].cpus = cpus.into_iter().collect();
    }
    let senders = plan.layout.senders_of_others(machine);
    facts.transmit_cpus = plan.layout.queues_of_workers().chain(senders).collect();
    let both = |(worker, queue): &(Worker, usize)| {
        [Family::Udp4, Family::Udp6].map(|family| PortRule {
            id: u32::from(worker.port),
            family,
            port: worker.port,
            queue: *queue,
        })
    };
    facts.rules = Ok(plan.layout.workers.iter().flat_map(both).collect());
    facts
}
