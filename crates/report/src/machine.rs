//! The machine: what figures depend on.

use std::fs::read_to_string;
use std::process::Command;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, Uid};
use serde::{Deserialize, Serialize};

use crate::evidence::Commit;

/// What there is to know about a machine: names and values, in the order of the page.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    pub facts: Vec<(String, String)>,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let facts = [
            ("CPU", cpu_model()),
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
                file("/sys/kernel/mm/transparent_hugepage/enabled")
                    .unwrap_or_else(|| "none".to_owned()),
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
        Self {
            facts: facts
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        }
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

fn cpu_model() -> String {
    let text = file("/proc/cpuinfo").unwrap_or_default();
    field(&text, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn cores() -> String {
    let online = file("/sys/devices/system/cpu/online").unwrap_or_else(|| "unknown".to_owned());
    let threads = file("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    let shared = match threads {
        Some(list) if list.contains([',', '-']) => ", with hardware threads that share a core",
        _ => "",
    };
    format!(
        "{} that may be used (online: {online}){shared}",
        allowed_cpus()
    )
}

/// How many CPUs this process may use.
pub(crate) fn allowed_cpus() -> usize {
    sched_getaffinity(Pid::from_raw(0)).map_or(1, |set| {
        (0..CpuSet::count())
            .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
            .count()
    })
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
    if all.is_empty() {
        "unknown".to_owned()
    } else {
        all.join(", ")
    }
}

fn memory() -> String {
    let text = file("/proc/meminfo").unwrap_or_default();
    let kib =
        field(&text, "MemTotal").and_then(|value| value.split(' ').next()?.parse::<f64>().ok());
    kib.map_or_else(
        || "unknown".to_owned(),
        |kib| format!("{:.1} GiB", kib / 1024.0 / 1024.0),
    )
}

fn numa_nodes() -> String {
    let nodes = std::fs::read_dir("/sys/devices/system/node")
        .into_iter()
        .flatten()
        .flatten();
    let is_node = |name: &str| {
        name.strip_prefix("node")
            .is_some_and(|rest| rest.parse::<u32>().is_ok())
    };
    let count = nodes
        .filter(|entry| entry.file_name().to_str().is_some_and(is_node))
        .count();
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
        product.map_or_else(
            || "a virtual machine".to_owned(),
            |name| format!("a virtual machine ({name})"),
        )
    } else {
        "none that shows".to_owned()
    }
}

fn load(text: &str) -> String {
    let one: Vec<_> = text.split(' ').take(1).collect();
    format!(
        "{} processes running or waiting, in the mean of a minute",
        one.join(" ")
    )
}

/// What the sources are at.
pub(crate) fn commit() -> Commit {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(id) => Commit {
            id,
            is_dirty: git(&["status", "--porcelain", "--untracked-files=no"])
                .is_some_and(|text| !text.is_empty()),
        },
        None => Commit {
            id: format!(
                "version {}, outside a repository",
                env!("CARGO_PKG_VERSION")
            ),
            is_dirty: false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_says_what_it_is() {
        let machine = Machine::this();
        assert!(
            machine
                .facts
                .iter()
                .all(|(name, value)| !name.is_empty() && !value.is_empty()),
            "{machine:?}"
        );
        assert!(allowed_cpus() >= 1);
    }

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(
            field(text, "model name").as_deref(),
            Some("Some CPU @ 2 GHz")
        );
        assert_eq!(field(text, "flags"), None);
        assert!(load("0.52 0.58 0.59 1/389 1").starts_with("0.52 "));
    }
}
