//! The providers, as data.

/// A provider of libfabric, and what it promises.
#[derive(Debug, PartialEq, Eq)]
pub struct Provider {
    /// Name, as libfabric has it.
    pub name: &'static str,
    /// A one-sided read completes while the target is outside of the library.
    pub reads_without_target: bool,
    /// The target refuses unknown keys, ranges beyond the area, and writes.
    pub checks_access: bool,
    /// A thread can sleep until there is a completion. (`net` has a descriptor that stays readable.)
    pub has_descriptor: bool,
    /// A transfer to a peer that was killed ends with an error of its own.
    pub notices_killed_peers: bool,
    pub progress: Progress,
    pub addressing: Addressing,
    /// Peers of one endpoint.
    pub peers_max: u32,
    /// Needs a device that the project's own machines have not: the promises are those of its documents.
    pub needs_device: bool,
    /// Limits that the other fields do not tell.
    pub note: &'static str,
}

/// Says which thread carries out what peers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A thread of the provider, one per endpoint. It is requested by the hint of automatic data progress.
    ProviderThread,
    /// The threads that call the library: a server that does not poll answers nothing.
    Caller,
    /// The reader's own thread, which reads the target's memory by a system call or a mapping.
    Reader,
    /// The NIC for one-sided reads, the threads that call the library for messages.
    Device,
}

impl Progress {
    /// Returns words for documents and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProviderThread => "a thread of the provider",
            Self::Caller => "the threads that poll",
            Self::Reader => "the reader's own thread",
            Self::Device => "the NIC",
        }
    }
}

/// Form of the addresses of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// An IP address and a port.
    Internet,
    /// A name on this machine.
    Name,
}

/// All providers that addresses may name.
pub const PROVIDERS: [Provider; 5] = [
    Provider {
        name: "net;ofi_rxm",
        reads_without_target: true,
        checks_access: true,
        has_descriptor: false,
        notices_killed_peers: true,
        progress: Progress::ProviderThread,
        addressing: Addressing::Internet,
        peers_max: u32::MAX,
        needs_device: false,
        note: "TCP in software: stands in for a NIC",
    },
    Provider {
        name: "tcp;ofi_rxm",
        reads_without_target: false,
        checks_access: true,
        has_descriptor: true,
        notices_killed_peers: true,
        progress: Progress::Caller,
        addressing: Addressing::Internet,
        peers_max: u32::MAX,
        needs_device: false,
        note: "TCP in software",
    },
    Provider {
        name: "shm",
        reads_without_target: true,
        checks_access: false,
        has_descriptor: false,
        notices_killed_peers: false,
        progress: Progress::Reader,
        addressing: Addressing::Name,
        peers_max: 256,
        needs_device: false,
        note: "one machine, one user; the target has to poll about every 1,000 reads",
    },
    Provider {
        name: "verbs;ofi_rxm",
        reads_without_target: true,
        checks_access: true,
        has_descriptor: true,
        notices_killed_peers: true,
        progress: Progress::Device,
        addressing: Addressing::Internet,
        peers_max: u32::MAX,
        needs_device: true,
        note: "InfiniBand, RoCE, iWARP",
    },
    Provider {
        name: "efa",
        reads_without_target: true,
        checks_access: true,
        has_descriptor: false,
        notices_killed_peers: true,
        progress: Progress::Device,
        addressing: Addressing::Internet,
        peers_max: u32::MAX,
        needs_device: true,
        note: "AWS; only instances whose EFA has RDMA read do without the target",
    },
];

impl Provider {
    /// Finds a provider by its name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }

    /// Returns whether the library has to be asked for automatic progress.
    pub fn wants_automatic_progress(&self) -> bool {
        self.progress == Progress::ProviderThread
    }

    /// Returns an error if this machine, or this build, lacks the provider.
    pub fn probe(&self) -> Result<(), String> {
        crate::domain::probe(self)
    }
}
