//! Plans the changes of one interface: a function of the facts.

use super::command::Action;
use super::layout::Layout;
use super::options::Worker;
use super::steps;
use crate::machine::cpus::{self, Cpus};
use crate::machine::facts::{InterfaceFacts, Kind, MachineFacts};

/// The wishes for an interface.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The workers that it is to serve.
    pub workers: &'a [Worker],
    /// The CPUs that have no worker of any interface.
    pub spare: &'a Cpus,
    /// The machine.
    pub machine: &'a MachineFacts,
}

/// Subjects of steps, in the order in which steps are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Number of queues.
    Queues,
    /// Generic receive offload.
    Offload,
    /// The switch of flow rules.
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
    /// Name in the printed plan.
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
    /// Subject.
    pub subject: Subject,
    /// Text: the present state, or the new one.
    pub text: String,
    /// Changes; none: it is fine already, except for `cannot` and `later`.
    pub actions: Vec<Action>,
    /// Impossible here, and the consequence.
    pub cannot: Option<String>,
    /// Unknown before an earlier step is done.
    pub later: Option<String>,
}

impl Step {
    /// One about which nothing has been said yet.
    pub fn new(subject: Subject, text: impl Into<String>) -> Self {
        Self { subject, text: text.into(), actions: Vec::new(), cannot: None, later: None }
    }

    /// Something is not possible.
    pub fn with_cannot(mut self, reason: impl Into<String>) -> Self {
        self.cannot = Some(reason.into());
        self
    }
}

/// The plan of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Queues of the workers.
    pub layout: Layout,
    /// Steps, in order. None for an interface without workers.
    pub steps: Vec<Step>,
    /// Notes for the person.
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
    Plan { notes: notes(facts, &layout), layout, steps }
}

/// Collects the notes beside the steps.
fn notes(facts: &InterfaceFacts, layout: &Layout) -> Vec<String> {
    let name = &facts.name;
    let mut notes = Vec::new();
    match &facts.kind {
        Kind::Loopback => {
            notes.push("the loopback has no queues to deliver to: the sender's CPU does the work".into())
        }
        Kind::Above(below) => notes
            .push(format!("{name} has no queues of its own: name what is below it ({})", below.join(" "))),
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

/// The note about the delay of interrupts.
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
