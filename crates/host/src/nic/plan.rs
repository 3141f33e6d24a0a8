//! What is to be done to one interface: a function of the facts.

use super::command::Action;
use super::layout::Layout;
use super::options::Worker;
use super::steps;
use crate::machine::cpus::{self, Cpus};
use crate::machine::facts::{InterfaceFacts, Kind, MachineFacts};

/// What is wanted of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The workers that it is to serve.
    pub workers: &'a [Worker],
    /// The CPUs that have no worker of any interface.
    pub spare: &'a Cpus,
    /// The machine.
    pub machine: &'a MachineFacts,
}

/// What a step is about, in the order in which steps are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// How many queues there are.
    Queues,
    /// Generic receive offload.
    Offload,
    /// Whether flow rules are switched on.
    RuleSwitch,
    /// Flow rules: port to queue.
    Rules,
    /// Receive side scaling: the queues of everything else.
    Spreading,
    /// Interrupts: queue to CPU.
    Interrupts,
    /// Transmit queues: CPU to queue.
    Senders,
}

impl Subject {
    /// As it is called in what is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Offload => "receive offload (GRO)",
            Self::RuleSwitch => "flow rules switched on",
            Self::Rules => "flow rules",
            Self::Spreading => "everything else (RSS)",
            Self::Interrupts => "interrupts",
            Self::Senders => "transmit queues (XPS)",
        }
    }
}

/// One step: what is to be done about a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is about.
    pub subject: Subject,
    /// What is, or what will be.
    pub text: String,
    /// What is to be done; nothing: it is fine already, but for what `cannot` and `later` say.
    pub actions: Vec<Action>,
    /// What is not possible here, and what follows from that.
    pub cannot: Option<String>,
    /// What is not known before an earlier step is done.
    pub later: Option<String>,
}

impl Step {
    /// One about which nothing has been said yet.
    pub fn new(subject: Subject, text: impl Into<String>) -> Self {
        Self {
            subject,
            text: text.into(),
            actions: Vec::new(),
            cannot: None,
            later: None,
        }
    }

    /// Something is not possible.
    pub fn with_cannot(mut self, reason: impl Into<String>) -> Self {
        self.cannot = Some(reason.into());
        self
    }
}

/// What is to be done to one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which queue is whose.
    pub layout: Layout,
    /// What is to be done, in this order. Nothing for an interface without workers.
    pub steps: Vec<Step>,
    /// What a person should know beside it.
    pub notes: Vec<String>,
}

/// Plans.
pub fn plan(facts: &InterfaceFacts, request: &Request<'_>) -> Plan {
    let layout = Layout::choose(facts, request.workers, request.spare, request.machine);
    if request.workers.is_empty() {
        return Plan {
            layout,
            steps: Vec::new(),
            notes: vec!["no worker is left for it: there are more interfaces than workers".into()],
        };
    }
    let queues = steps::queues(facts, &layout);
    let changing = !queues.actions.is_empty();
    let mut steps = vec![queues, steps::offload(facts)];
    steps.extend(steps::rule_switch(facts));
    steps.push(steps::rules(facts, &layout));
    steps.push(steps::spreading(facts, &layout, changing));
    steps.push(steps::interrupts(facts, &layout, changing));
    steps.push(steps::senders(facts, &layout, request.machine, changing));
    Plan {
        notes: notes(facts, &layout),
        layout,
        steps,
    }
}

/// What a person should know beside the steps.
fn notes(facts: &InterfaceFacts, layout: &Layout) -> Vec<String> {
    let name = &facts.name;
    let mut notes = Vec::new();
    match &facts.kind {
        Kind::Loopback => notes.push(
            "the loopback has no queues to deliver to: the sender's CPU does the work".into(),
        ),
        Kind::Above(below) => notes.push(format!(
            "{name} has no queues of its own: name what is below it ({})",
            below.join(" ")
        )),
        Kind::Virtual => notes.push(format!(
            "{name} has no device: packets are received on the CPU that sends them, unless \
             threads receive them (echo 1 > /sys/class/net/{name}/threaded)"
        )),
        Kind::Device => {}
    }
    let far: Vec<_> = layout
        .workers
        .iter()
        .filter(|(worker, _)| facts.node.is_some() && worker.node != facts.node)
        .map(|(worker, _)| worker.number)
        .collect();
    if let (Some(node), false) = (facts.node, far.is_empty()) {
        notes.push(format!(
            "workers {} are not on node {node}, where {name} is: each packet of theirs crosses \
             between nodes",
            cpus::list(&far)
        ));
    }
    if facts.rules.is_err() && facts.rss.is_ok() {
        notes.push(format!(
            "without flow rules, let the ports decide the queue too, or all datagrams of a client \
             come through one: ethtool -N {name} rx-flow-hash udp4 sdfn"
        ));
    }
    if !facts.passed_on.is_empty() {
        notes.push(format!(
            "receive queues {} pass packets on to other CPUs (rps_cpus below \
             /sys/class/net/{name}/queues): that undoes the interrupts' places",
            cpus::list(&facts.passed_on)
        ));
    }
    notes.extend(delay(facts));
    notes
}

/// What to know about the delay of interrupts.
fn delay(facts: &InterfaceFacts) -> Option<String> {
    let name = &facts.name;
    let us = facts.interrupt_delay_us?;
    Some(match (facts.interrupt_delay_adaptive, us) {
        (true, _) => format!(
            "the device chooses how long it collects packets before it interrupts; for a bound on \
             latency fix it: ethtool -C {name} adaptive-rx off rx-usecs 16"
        ),
        (false, 0) => format!(
            "every packet may interrupt: a few microseconds (ethtool -C {name} rx-usecs 8) make \
             bursts, which cost less CPU, for as much latency"
        ),
        (false, us) => format!(
            "the device collects packets for {us} us before it interrupts: latency is at least \
             that (ethtool -C {name} rx-usecs ...)"
        ),
    })
}
