//! Gathers facts of the machine and this process. Changes nothing.

mod built;
mod devices;
pub mod interfaces;

use std::collections::{BTreeMap, HashSet};
use std::io;

use micanite_net::bypass::probe;
use micanite_net::{Uring, xdp};

use super::facts::{Built, Facts, Kernel, Pages, Process, Processors, Trial, Tried};
use crate::machine::{Machine, cpus};

/// Pages of 2 MiB.
const HUGE: &str = "hugepages/hugepages-2048kB";
/// Paths that show a container, and its runtime.
const CONTAINERS: [(&str, &str); 3] = [
    (".dockerenv", "Docker"),
    ("run/.containerenv", "Podman"),
    ("var/run/secrets/kubernetes.io", "Kubernetes"),
];

/// Gathers the facts of this machine, with the interfaces that are named, or all.
pub fn facts(names: &[String]) -> Result<Facts, String> {
    let machine = Machine::here();
    let tried = Tried {
        socket: trial(probe::af_xdp_socket()),
        memory: trial(probe::frame_memory(xdp::FRAMES_BYTES_MIN)),
        program: trial(probe::xdp_program()),
        map: trial(probe::socket_map()),
        io_uring: trial(Uring::probe()),
    };
    let all = of_machine(&machine, tried, built::built());
    let interfaces = interfaces::all(&machine, names, &interfaces::Kernel)?;
    Ok(Facts { interfaces, ..all })
}

/// Gathers all facts except those of interfaces.
pub fn of_machine(machine: &Machine, tried: Tried, built: Built) -> Facts {
    let process = process(machine);
    Facts {
        kernel: kernel(machine),
        cpus: processors(machine),
        process,
        pages: pages(machine),
        tried,
        built,
        maker: maker(machine),
        devices: devices::without_interface(machine),
        iommu_groups: machine.names("sys/kernel/iommu_groups").len(),
        vfio_without_iommu: machine
            .read("sys/module/vfio/parameters/enable_unsafe_noiommu_mode")
            .map(|text| text == "Y" || text == "1"),
        memory_by_node: None,
        interfaces: Vec::new(),
    }
}

fn trial(result: io::Result<()>) -> Trial {
    result.map_err(|error| error.to_string())
}

fn kernel(machine: &Machine) -> Kernel {
    let release = machine.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let setting = |name: &str| {
        let path = format!("proc/sys/kernel/{name}");
        machine.read(&path)?.parse().ok()
    };
    Kernel {
        version,
        release,
        btf: machine.path("sys/kernel/btf/vmlinux").exists(),
        unprivileged_bpf_disabled: setting("unprivileged_bpf_disabled"),
        io_uring_disabled: setting("io_uring_disabled"),
    }
}

fn process(machine: &Machine) -> Process {
    let status = machine.read("proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    let mask = |name| {
        let words = field(name)?;
        u64::from_str_radix(words.first()?, 16).ok()
    };
    let users = field("Uid").unwrap_or_default();
    let map = machine.read("proc/self/uid_map").unwrap_or_default();
    let limits = machine.read("proc/self/limits").unwrap_or_default();
    Process {
        // Real, effective, saved, of files.
        user: users.get(1).and_then(|word| word.parse().ok()).unwrap_or(0),
        capabilities: mask("CapEff").unwrap_or(0),
        bounding: mask("CapBnd").unwrap_or(0),
        filtered: field("Seccomp").is_some_and(|words| words != ["0"]),
        user_namespace: !map.is_empty() && map.split_whitespace().ne(["0", "0", "4294967295"]),
        container: container(machine),
        memlock: memlock(&limits),
    }
}

fn container(machine: &Machine) -> Option<String> {
    let mut known = CONTAINERS.iter();
    let found = known.rfind(|(path, _)| machine.path(path).exists());
    found.map(|(_, name)| (*name).to_owned())
}

/// The limits of locked memory, from `/proc/self/limits`.
fn memlock(limits: &str) -> (Option<u64>, Option<u64>) {
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max locked memory"));
    let mut words = line.unwrap_or_default().split_whitespace();
    let mut limit = || words.next().and_then(|word| word.parse().ok());
    (limit(), limit())
}

fn processors(machine: &Machine) -> Processors {
    let status = machine.read("proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = match list.and_then(|list| cpus::parse_list(list).ok()) {
        Some(cpus) => cpus,
        None => machine.list("sys/devices/system/cpu/online").unwrap_or_default(),
    };
    let siblings = |cpu: &usize| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        machine.read(&path).unwrap_or_else(|| cpu.to_string())
    };
    let known = machine.facts().unwrap_or_default();
    let nodes = known.nodes.iter().map(|(node, cpus)| (*node, cpus::list(cpus)));
    Processors {
        cores: allowed.iter().map(siblings).collect::<HashSet<_>>().len(),
        allowed: allowed.len(),
        nodes: nodes.collect(),
        irqbalance: known.irqbalance,
    }
}

fn pages(machine: &Machine) -> Pages {
    let count = |directory: &str, name: &str| -> usize {
        let text = machine.read(&format!("{directory}/{HUGE}/{name}"));
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let nodes = machine.list("sys/devices/system/node/online").unwrap_or_default();
    let mut huge_by_node = BTreeMap::new();
    if nodes.len() > 1 {
        for node in nodes {
            let directory = format!("sys/devices/system/node/node{node}");
            let pages = (count(&directory, "nr_hugepages"), count(&directory, "free_hugepages"));
            huge_by_node.insert(node, pages);
        }
    }
    let transparent = machine.read("sys/kernel/mm/transparent_hugepage/enabled");
    Pages {
        huge: count("sys/kernel/mm", "nr_hugepages"),
        huge_free: count("sys/kernel/mm", "free_hugepages"),
        huge_by_node,
        // The choice stands in brackets.
        transparent: transparent.and_then(|text| {
            let (_, rest) = text.split_once('[')?;
            Some(rest.split_once(']')?.0.to_owned())
        }),
    }
}

/// Maker and model, as the firmware says.
fn maker(machine: &Machine) -> Option<String> {
    let read = |name: &str| machine.read(&format!("sys/class/dmi/id/{name}"));
    let vendor = read("sys_vendor")?;
    let product = read("product_name").unwrap_or_default();
    Some(format!("{vendor} {product}").trim().to_owned())
}
