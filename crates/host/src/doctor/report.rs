//! The report: findings by subject, and a verdict.

use serde::Serialize;

/// The state of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Good as it is.
    Fine,
    /// Information only.
    Note,
    /// Not needed, but better.
    Better,
    /// Needed, and can be had.
    Missing,
    /// Needed, and cannot be had here.
    Impossible,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// State.
    pub state: State,
    /// Text.
    pub text: String,
    /// The commands that change it, for a shell.
    pub commands: Vec<String>,
}

/// The findings about one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The subject: the machine, an interface.
    pub title: String,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Section {
    /// One about which nothing has been said yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), findings: Vec::new() }
    }

    /// Adds a finding.
    pub fn say(&mut self, state: State, text: impl Into<String>) {
        self.say_with(state, text, []);
    }

    /// Adds a finding with what changes it.
    pub fn say_with<const N: usize>(&mut self, state: State, text: impl Into<String>, commands: [String; N]) {
        self.findings.push(Finding { state, text: text.into(), commands: commands.into() });
    }

    /// The commands of the findings in a state, in order.
    pub fn commands(&self, state: State) -> impl Iterator<Item = &String> {
        let found = self.findings.iter().filter(move |it| it.state == state);
        found.flat_map(|it| &it.commands)
    }

    /// Returns true if a finding is in a state.
    pub fn has(&self, state: State) -> bool {
        self.findings.iter().any(|it| it.state == state)
    }
}

/// The grade of a port, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// AF_XDP behind the driver: the kernel has made its own copy of each packet first.
    Generic,
    /// AF_XDP on an interface in software.
    Software,
    /// AF_XDP in the driver, with one copy.
    Copy,
    /// AF_XDP in the driver, without a copy.
    ZeroCopy,
    /// DPDK on a device.
    Dpdk,
}

impl Grade {
    /// Text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic mode: behind the driver, on the kernel's copy of each packet",
            Self::Software => "native, copy mode; an interface in software",
            Self::Copy => "native, copy mode",
            Self::ZeroCopy => "native, zero copy",
            Self::Dpdk => "DPDK has the device to itself",
        }
    }
}

/// A port that the machine could have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Port {
    /// The value for `--bypass`.
    pub name: String,
    /// Grade.
    pub grade: Grade,
    /// Workers that it has queues for.
    pub workers: usize,
    /// Addresses that it has to be given, as `--bypass-ip` takes them.
    pub addresses: Option<String>,
    /// It is a port of DPDK, not of AF_XDP.
    #[serde(skip)]
    pub is_dpdk: bool,
    /// Nothing is missing for it.
    pub works: bool,
    /// The section of its own needs, besides those of all ports of its kind.
    #[serde(skip)]
    pub section: usize,
}

/// Advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// A port works as things are.
    pub works: bool,
    /// The best port; none: there is none to be had.
    pub best: Option<Port>,
    /// Text.
    pub text: String,
    /// The commands that lead to it, for a shell; comments begin with `#`.
    pub recipe: Vec<String>,
}

/// The whole report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Sections by subject.
    pub sections: Vec<Section>,
    /// Ports, the best first.
    pub ports: Vec<Port>,
    /// Advice.
    pub verdict: Verdict,
}
