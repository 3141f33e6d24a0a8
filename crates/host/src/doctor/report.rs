//! What is said to the person: findings by subject, and a verdict.

use serde::Serialize;

/// Where something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Fine,
    /// To be known.
    Note,
    /// It works without, and better with it.
    Better,
    /// It is needed, and can be had.
    Missing,
    /// It cannot be had here.
    Impossible,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where it stands.
    pub state: State,
    /// In words.
    pub text: String,
    /// What changes it, as a shell takes it.
    pub commands: Vec<String>,
}

/// What was found about one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The subject: the machine, an interface.
    pub title: String,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Section {
    /// One about which nothing has been said yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            findings: Vec::new(),
        }
    }

    /// Adds a finding.
    pub fn say(&mut self, state: State, text: impl Into<String>) {
        self.say_with(state, text, []);
    }

    /// Adds a finding with what changes it.
    pub fn say_with<const N: usize>(
        &mut self,
        state: State,
        text: impl Into<String>,
        commands: [String; N],
    ) {
        self.findings.push(Finding {
            state,
            text: text.into(),
            commands: commands.into(),
        });
    }

    /// The commands of the findings in a state, in order.
    pub fn commands(&self, state: State) -> impl Iterator<Item = &String> {
        let found = self.findings.iter().filter(move |it| it.state == state);
        found.flat_map(|it| &it.commands)
    }

    /// Whether something is in a state.
    pub fn has(&self, state: State) -> bool {
        self.findings.iter().any(|it| it.state == state)
    }
}

/// How good a port is, the worst first.
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
    /// In words.
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
    /// As `--port` takes it.
    pub name: String,
    /// How good it is.
    pub grade: Grade,
    /// Workers that it has queues for.
    pub workers: usize,
    /// Addresses that it has to be given, as `--port-ip` takes them.
    pub addresses: Option<String>,
    /// Whether it needs what AF_XDP or what DPDK needs of the machine and of the process.
    #[serde(skip)]
    pub is_dpdk: bool,
    /// Whether nothing is missing for it.
    pub works: bool,
    /// What it needs beside what all ports of its kind need.
    #[serde(skip)]
    pub section: usize,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether a port works as things are.
    pub works: bool,
    /// The best port; none: there is none to be had.
    pub best: Option<Port>,
    /// In words.
    pub text: String,
    /// What leads to it, as a shell takes it; comments begin with `#`.
    pub recipe: Vec<String>,
}

/// All that is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// By subject.
    pub sections: Vec<Section>,
    /// All ports, the best first.
    pub ports: Vec<Port>,
    /// What to do.
    pub verdict: Verdict,
}
