//! Judges what all ports have in common: processors, memory, what this process may do.

use micanite_net::xdp;

use super::DPDK;
use super::recipe::{SECCOMP_PROFILE, grant, run};
use crate::doctor::facts::{Capability, Facts, Trial};
use crate::doctor::report::{Grade, Port, Section, State};

/// The first kernel that takes an XDP program off an interface when its process is killed (`bpf_link`).
const KERNEL_MIN: (u32, u32) = (5, 9);
/// The first kernel that does not count BPF maps as locked memory.
const KERNEL_MAPS: (u32, u32) = (5, 11);
/// The first kernel with `CAP_BPF`.
const KERNEL_CAP_BPF: (u32, u32) = (5, 8);
/// Pages of 2 MiB for the frames of a queue.
const QUEUE_PAGES: usize = xdp::FRAMES_BYTES >> 21;
/// The program that gives devices to user space.
const VFIO: &str = "vfio-pci";
/// Drivers that hand a device to user space.
const USER_SPACE: [&str; 3] = [VFIO, "igb_uio", "uio_pci_generic"];
/// A size to reckon with in examples, in MiB.
const MEMORY_EXAMPLE: usize = 1024;

/// Processors, kernel, container.
pub fn machine(facts: &Facts) -> Section {
    let mut section = Section::new("this machine");
    if let Some(maker) = &facts.maker {
        section.say(State::Note, maker);
    }
    let cpus = &facts.cpus;
    let nodes: Vec<_> = cpus.nodes.iter().map(|(node, list)| format!("node {node}: CPUs {list}")).collect();
    let several = nodes.len() > 1;
    section.say(
        State::Fine,
        format!(
            "{} on {}{}",
            count(cpus.allowed, "CPU"),
            count(cpus.cores, "physical core"),
            if several { format!("; {}", nodes.join(", ")) } else { String::new() }
        ),
    );
    if several {
        section.say(
            State::Note,
            "several NUMA nodes: the server keeps partitions on the nodes of their owners (--numa). Give \
             each node's workers a NIC of that node (--bypass may be repeated), or keep the server on the \
             NIC's node with taskset",
        );
    }
    if cpus.irqbalance {
        section.say_with(
            State::Better,
            "irqbalance moves interrupts to other CPUs from time to time",
            ["systemctl disable --now irqbalance".into()],
        );
    }
    if let Some(container) = &facts.process.container {
        section.say(
            State::Note,
            format!("in a container ({container}): huge pages, kernel settings and the NIC are the host's"),
        );
    }
    match &facts.tried.io_uring {
        Ok(()) => section.say(State::Fine, "io_uring works (for TCP: --io io_uring)"),
        Err(reason) => {
            let why = match facts.kernel.io_uring_disabled {
                Some(level @ 1..) => format!("kernel.io_uring_disabled is {level}"),
                _ if facts.process.filtered => "a filter of system calls (seccomp) is on".into(),
                _ => "Linux 6.1 or later has all it needs".into(),
            };
            section.say(
                State::Note,
                format!(
                    "io_uring does not work: {reason}; {why}. TCP uses epoll then, which is no less right"
                ),
            );
        }
    }
    section
}

/// Huge pages and locked memory.
pub fn memory(facts: &Facts) -> Section {
    let mut section = Section::new("memory");
    let pages = &facts.pages;
    let wanted = MEMORY_EXAMPLE / 2 + QUEUE_PAGES * facts.cpus.cores.max(1);
    if pages.huge_free > 0 {
        section
            .say(State::Fine, format!("{} of {} huge pages of 2 MiB are free", pages.huge_free, pages.huge));
    } else {
        let state = if pages.huge == 0 { "no huge pages are reserved" } else { "all huge pages are taken" };
        section.say_with(
            State::Better,
            format!(
                "{state}: items and frames get transparent ones or 4 KiB pages. A queue takes {QUEUE_PAGES}, \
                 -m M half of M; with -m {MEMORY_EXAMPLE} and {}:",
                count(facts.cpus.cores, "worker")
            ),
            [format!("sysctl -w vm.nr_hugepages={wanted}")],
        );
    }
    if pages.huge_by_node.len() > 1 {
        let nodes: Vec<_> = pages
            .huge_by_node
            .iter()
            .map(|(node, (all, free))| format!("node {node}: {free} of {all}"))
            .collect();
        section.say(State::Note, format!("huge pages that are free, {}", nodes.join(", ")));
    }
    match &facts.memory_by_node {
        None => {}
        // A summary, then an empty line and a table.
        Some(Ok(text)) => {
            let lines = text.lines().take_while(|line| !line.is_empty());
            lines.for_each(|line| section.say(State::Note, format!("the running server: {line}")));
        }
        Some(Err(reason)) => {
            let text = "micanite ctl numa lists the partitions of a server by NUMA node, but none answers";
            section.say(State::Note, format!("{text}: {reason}"));
        }
    }
    match pages.transparent.as_deref() {
        Some("never") => section.say_with(
            State::Better,
            "transparent huge pages are off",
            ["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled".into()],
        ),
        Some(choice) => section.say(State::Fine, format!("transparent huge pages: {choice}")),
        None => section.say(State::Note, "the kernel has no transparent huge pages"),
    }
    let text = |limit: Option<u64>| limit.map_or_else(|| "no limit".into(), |it| format!("{} KiB", it >> 10));
    let (soft, hard) = facts.process.memlock;
    section
        .say(State::Note, format!("locked memory (RLIMIT_MEMLOCK): {}, at most {}", text(soft), text(hard)));
    section
}

/// Judges the needs of AF_XDP: the kernel and this process.
pub fn af_xdp(facts: &Facts) -> Section {
    let mut section = Section::new("AF_XDP (--bypass xdp:INTERFACE)");
    let (kernel, process) = (&facts.kernel, &facts.process);
    if let Err(reason) = &facts.built.xdp {
        section.say_with(
            State::Missing,
            format!("this program was built without it: {reason}"),
            ["apt-get install clang && cargo build --release".into()],
        );
    }
    if kernel.version < KERNEL_MIN {
        section.say(
            State::Impossible,
            format!(
                "Linux {} is too old: 5.9 or later takes the program off when its process ends",
                kernel.release
            ),
        );
    } else {
        let btf = if kernel.btf { "with" } else { "without" };
        section.say(State::Fine, format!("Linux {} {btf} BTF", kernel.release));
    }
    let bpf = match kernel.version < KERNEL_CAP_BPF {
        true => Capability::SysAdmin,
        false => Capability::Bpf,
    };
    let needed = [Capability::NetRaw, Capability::NetAdmin, bpf];
    let absent: Vec<_> = needed.into_iter().filter(|it| !process.may(*it)).collect();
    let names = |list: &[Capability]| list.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
    if absent.is_empty() {
        section.say(State::Fine, format!("this process has {}", names(&needed)));
    } else {
        let who = if process.user == 0 { "root here" } else { "this user" };
        let text = format!("{who} lacks {}", names(&absent));
        match absent.iter().all(|it| process.could(*it)) || process.container.is_some() {
            true => section.say_with(State::Missing, text, [grant(facts)]),
            false => section
                .say(State::Impossible, format!("{text}, and no process started from here can have it")),
        }
    }
    if process.user_namespace && process.container.is_none() {
        section.say(State::Note, "in a user namespace: its root has no rights over BPF");
    }
    let able = absent.is_empty();
    trial(&mut section, facts, able, "an AF_XDP socket can be opened", &facts.tried.socket);
    trial(&mut section, facts, able, "an XDP program can be loaded", &facts.tried.program);
    trial(&mut section, facts, able, "a map of AF_XDP sockets can be made", &facts.tried.map);
    locked_memory(&mut section, facts);
    if kernel.version < KERNEL_MAPS {
        section.say(State::Note, "before Linux 5.11, BPF maps count as locked memory too");
    }
    if let Some(level) = kernel.unprivileged_bpf_disabled {
        section.say(
            State::Note,
            format!(
                "kernel.unprivileged_bpf_disabled is {level}; XDP programs want capabilities in any case"
            ),
        );
    }
    section
}

/// Says what came of a trial, if that is not what the lack of capabilities explains.
fn trial(section: &mut Section, facts: &Facts, able: bool, what: &str, trial: &Trial) {
    match trial {
        Ok(()) => section.say(State::Fine, what),
        Err(_) if !able => {}
        Err(reason) => {
            let text = format!("not, although it has the capabilities: {what} ({reason})");
            if facts.process.filtered {
                section.say_with(
                    State::Missing,
                    format!("{text}: a filter of system calls (seccomp) is on"),
                    [run(&format!("--security-opt seccomp={SECCOMP_PROFILE}"))],
                );
            } else if facts.process.user_namespace {
                section.say(
                    State::Impossible,
                    format!("{text}: the capabilities are those of a user namespace"),
                );
            } else {
                section.say(State::Impossible, text);
            }
        }
    }
}

/// Judges the limit of locked memory against the frames of the queues.
fn locked_memory(section: &mut Section, facts: &Facts) {
    let process = &facts.process;
    if process.may(Capability::IpcLock) {
        section.say(State::Fine, "CAP_IPC_LOCK: frames do not count as locked memory");
        return;
    }
    let queues = facts.cpus.cores.max(1);
    let enough = |bytes: usize| {
        let limit = process.memlock.1;
        limit.is_none_or(|limit| limit >= (queues * bytes) as u64)
    };
    let mib = |bytes: usize| (queues * bytes) >> 20;
    let text = format!(
        "{}: {} MiB of locked memory, {} MiB at the least (or CAP_IPC_LOCK)",
        count(queues, "queue"),
        mib(xdp::FRAMES_BYTES),
        mib(xdp::FRAMES_BYTES_MIN),
    );
    // A soft limit below the hard one is raised by the server.
    let taken =
        process.memlock.0 == process.memlock.1 && facts.tried.socket.is_ok() && facts.tried.memory.is_err();
    if taken && enough(xdp::FRAMES_BYTES_MIN) {
        let text = format!("{text}: other processes of this user have locked it");
        section.say_with(State::Missing, text, [grant(facts)]);
    } else if enough(xdp::FRAMES_BYTES) {
        section.say(State::Fine, format!("{text}: there is enough"));
    } else if enough(xdp::FRAMES_BYTES_MIN) {
        let text = format!("{text}: there is less, and bursts are lost sooner");
        section.say_with(State::Better, text, [grant(facts)]);
    } else {
        section.say_with(State::Missing, format!("{text}: there is less"), [grant(facts)]);
    }
}

/// Judges the needs of DPDK.
pub fn dpdk(facts: &Facts) -> Section {
    let mut section = Section::new("DPDK (--bypass dpdk:DEVICE)");
    match &facts.built.dpdk {
        Ok(version) => section.say(State::Fine, format!("built in: {version}")),
        Err(reason) => section.say_with(
            State::Missing,
            format!("this program was built without it: {reason}"),
            ["apt-get install libdpdk-dev pkg-config && cargo build --release --features dpdk".into()],
        ),
    }
    if facts.pages.huge_free == 0 {
        section.say(
            State::Better,
            "without huge pages, DPDK uses 4 KiB pages (the server sets --no-huge), and no device with DMA",
        );
    }
    match (facts.iommu_groups, facts.vfio_without_iommu) {
        (0, Some(true)) => section.say(State::Fine, "VFIO is there, and does without an IOMMU"),
        (0, _) => section.say(
            State::Note,
            "there is no IOMMU: a device can be given away only unprotected (it may write to any memory)",
        ),
        (groups, Some(_)) => {
            section.say(State::Fine, format!("VFIO is there, with {}", count(groups, "IOMMU group")))
        }
        (groups, None) => section.say(
            State::Note,
            format!("{}; VFIO is not loaded (modprobe {VFIO})", count(groups, "IOMMU group")),
        ),
    }
    for device in &facts.devices {
        let text = match &device.driver {
            Some(driver) if USER_SPACE.contains(&driver.as_str()) => "ready for DPDK".to_owned(),
            Some(driver) => format!("with driver {driver}, without an interface"),
            None => "with no driver".to_owned(),
        };
        section.say(State::Note, format!("network device {}: {text}", device.address));
    }
    section.say(
        State::Note,
        "between processes of one machine: dpdk:net_memif0,role=server (needs no NIC and no root)",
    );
    section
}

/// The devices that DPDK has already.
pub fn dpdk_ports(facts: &Facts) -> Vec<Port> {
    let ready = |driver: &Option<String>| driver.as_deref().is_some_and(|it| USER_SPACE.contains(&it));
    let devices = facts.devices.iter().filter(|device| ready(&device.driver));
    devices
        .map(|device| Port {
            name: format!("dpdk:{}", device.address),
            grade: Grade::Dpdk,
            workers: facts.cpus.cores,
            addresses: None,
            is_dpdk: true,
            works: false,
            section: DPDK,
        })
        .collect()
}

pub fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
