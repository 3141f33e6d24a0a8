//! The machine: what figures depend on, and what it has and lacks. All of it is looked for, not assumed.

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};
use std::process::Command;

use micanite_control::cores;
use nix::unistd::Uid;
use serde::{Deserialize, Serialize};

use crate::harness::energy::Meters;
use crate::harness::peers;
use crate::harness::system;
use crate::report::evidence::Commit;

/// Facts of a machine: names and values, in the order of the page.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    pub facts: Vec<(String, String)>,
}

impl Machine {
    pub fn this() -> Self {
        let facts = [
            ("CPU", system::cpu_model()),
            ("cores", cores()),
            ("CPU caches", caches()),
            ("memory", memory()),
            ("NUMA nodes", numa_nodes()),
            ("kernel", kernel()),
            ("virtualisation", virtualisation()),
            (
                "frequency governor",
                file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                    .unwrap_or_else(|| "not visible to this machine".to_owned()),
            ),
            (
                "transparent huge pages",
                file("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_else(|| "none".to_owned()),
            ),
            (
                "run as",
                if Uid::effective().is_root() {
                    "root"
                } else {
                    "an ordinary user: what needs root was left out"
                }
                .to_owned(),
            ),
            (
                "load when it began",
                file("/proc/loadavg").map_or_else(|| "unknown".to_owned(), |text| load(&text)),
            ),
        ];
        Self { facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
    }
}

fn file(path: &str) -> Option<String> {
    Some(read_to_string(path).ok()?.trim().to_owned())
}

/// A value of a file of lines like `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn cores() -> String {
    let online = file("/sys/devices/system/cpu/online").unwrap_or_else(|| "unknown".to_owned());
    let threads = file("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    let shared = match threads {
        Some(list) if list.contains([',', '-']) => ", with hardware threads that share a core",
        _ => "",
    };
    format!("{} that may be used (online: {online}){shared}", cores::allowed().len())
}

fn caches() -> String {
    let folder = "/sys/devices/system/cpu/cpu0/cache";
    let one = |index: usize| {
        let read = |name: &str| file(&format!("{folder}/index{index}/{name}"));
        let kind = match read("type")?.as_str() {
            "Data" => " data",
            "Instruction" => " instructions",
            _ => "",
        };
        Some(format!("L{}{kind} {}", read("level")?, read("size")?))
    };
    let all: Vec<_> = (0..8).map_while(one).collect();
    if all.is_empty() { "unknown".to_owned() } else { all.join(", ") }
}

fn memory() -> String {
    let text = file("/proc/meminfo").unwrap_or_default();
    let kib = field(&text, "MemTotal").and_then(|value| value.split(' ').next()?.parse::<f64>().ok());
    kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{:.1} GiB", kib / 1024.0 / 1024.0))
}

fn numa_nodes() -> String {
    let is_node = |path: &&PathBuf| {
        let number = name(path).strip_prefix("node");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let nodes = entries("/sys/devices/system/node");
    let count = nodes.iter().filter(is_node).count();
    count.max(1).to_string()
}

fn kernel() -> String {
    let release = file("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {release}, {}", std::env::consts::ARCH)
}

fn virtualisation() -> String {
    let flags = field(&file("/proc/cpuinfo").unwrap_or_default(), "flags").unwrap_or_default();
    let product = file("/sys/class/dmi/id/product_name");
    if flags.split(' ').any(|flag| flag == "hypervisor") {
        product.map_or_else(|| "a virtual machine".to_owned(), |name| format!("a virtual machine ({name})"))
    } else {
        "none that shows".to_owned()
    }
}

fn load(text: &str) -> String {
    let one: Vec<_> = text.split(' ').take(1).collect();
    format!("{} processes running or waiting, in the mean of a minute", one.join(" "))
}

pub(crate) fn commit() -> Commit {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(id) => Commit {
            id,
            is_dirty: git(&["status", "--porcelain", "--untracked-files=no"])
                .is_some_and(|text| !text.is_empty()),
        },
        None => Commit {
            id: format!("version {}, outside a repository", env!("CARGO_PKG_VERSION")),
            is_dirty: false,
        },
    }
}

/// Returns why network namespaces and programs in the kernel are out of reach, if so.
pub(crate) fn lacks_root() -> Option<String> {
    (!Uid::effective().is_root())
        .then(|| "It needs root: for network namespaces and programs in the kernel.".into())
}

/// Returns why a comparison with memcached is out of reach, if so.
pub(crate) fn lacks_memcached() -> Option<String> {
    let found = peers::memcacheds(&[]);
    found.err().map(|_| "It stands beside memcached, which scripts/peer-memcached unpacks.".into())
}

fn entries(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

/// Network interfaces that are devices, and how many receive queues each has.
pub(crate) fn interfaces() -> Vec<(String, usize)> {
    entries("/sys/class/net")
        .iter()
        .filter(|interface| interface.join("device").exists())
        .map(|interface| {
            let queues = entries(interface.join("queues"));
            let received = queues.iter().filter(|queue| name(queue).starts_with("rx-"));
            (name(interface).to_owned(), received.count())
        })
        .collect()
}

pub(crate) fn rdma_devices() -> Vec<String> {
    let devices = entries("/sys/class/infiniband");
    devices.iter().map(|device| name(device).to_owned()).collect()
}

/// Tells whether the CPU's performance counters can be used.
pub(crate) fn has_cpu_counters() -> bool {
    let sources = entries("/sys/bus/event_source/devices");
    sources.iter().any(|source| name(source).starts_with("cpu"))
}

/// Tells whether the machine shows the energy of its packages.
pub(crate) fn has_energy_meters() -> bool {
    Meters::of_machine().exist()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_the_machine_are_found() {
        let machine = Machine::this();
        assert!(
            machine.facts.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()),
            "{machine:?}"
        );
    }

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(text, "flags"), None);
        assert!(load("0.52 0.58 0.59 1/389 1").starts_with("0.52 "));
    }
}
