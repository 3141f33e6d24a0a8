//! Reads the facts: sysfs, `/proc`, `ethtool`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::cpus::{self, Cpus};
use super::facts::{Channels, InterfaceFacts, Interrupt, Kind, MachineFacts};
use super::{ethtool, interrupts, parse};

/// ARPHRD_LOOPBACK, the type of `lo`.
const TYPE_LOOPBACK: &str = "772";

/// A machine to look at: where its sysfs and `/proc` are.
#[derive(Debug)]
pub struct Machine {
    /// `/`, but in tests.
    root: PathBuf,
    /// Set in tests, where answers of `ethtool` are files below the root.
    recorded: bool,
}

impl Machine {
    /// The machine that this runs on.
    pub fn here() -> Self {
        Self::at("/")
    }

    /// A machine whose sysfs and `/proc` are below another directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), recorded: false }
    }

    /// A machine of which everything is below a directory: what `ethtool` answers to `-l eth0` in `ethtool/-l
    /// eth0`.
    #[cfg(test)]
    pub fn recorded(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), recorded: true }
    }

    /// A place below the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Reads a file below the root, without the end of its last line.
    pub fn read(&self, path: &str) -> Option<String> {
        read(&self.root.join(path))
    }

    /// The names in a directory below the root.
    pub fn names(&self, path: &str) -> Vec<String> {
        names(&self.root.join(path))
    }

    /// Asks `ethtool`.
    pub fn ethtool(&self, option: &str, name: &str) -> Result<String, String> {
        if !self.recorded {
            return ethtool::run(&[option, name]);
        }
        let path = format!("ethtool/{option} {name}");
        self.read(&path).ok_or_else(|| ethtool::NOT_SUPPORTED.to_owned())
    }

    /// Gathers CPUs, nodes, and other movers of interrupts.
    pub fn facts(&self) -> Result<MachineFacts, String> {
        let online = self.list("sys/devices/system/cpu/online")?;
        let mut nodes = BTreeMap::new();
        for node in self.list("sys/devices/system/node/online").unwrap_or_default() {
            let path = format!("sys/devices/system/node/node{node}/cpulist");
            nodes.insert(node, self.list(&path)?.into_iter().collect());
        }
        Ok(MachineFacts { online: online.into_iter().collect(), nodes, irqbalance: self.runs("irqbalance") })
    }

    /// Gathers all facts of one interface.
    pub fn interface(&self, name: &str) -> Result<InterfaceFacts, String> {
        let directory = self.directory(name)?;
        let ask = |option: &str| self.ethtool(option, name);
        let features = ask("-k").unwrap_or_default();
        let (interrupts, interrupt_names) = self.interrupts(&directory);
        let (interrupt_delay_us, interrupt_delay_adaptive) =
            parse::interrupt_delay(&ask("-c").unwrap_or_default());
        let unknown = || "the answer of ethtool is not understood".to_owned();
        let channels = ask("-l").and_then(|text| parse::channels(&text).ok_or_else(unknown));
        let queues = numbered(&directory.join("queues"), "rx-");
        Ok(InterfaceFacts {
            name: name.into(),
            driver: ask("-i").ok().and_then(|text| parse::driver(&text)),
            kind: kind(&directory),
            // The kernel says -1 where it does not know.
            node: read(&directory.join("device/numa_node")).and_then(|text| text.parse().ok()),
            queues: channels.as_ref().map_or(queues.len(), |it: &Channels| it.receive),
            channels,
            rules: ask("-n").map(|text| parse::port_rules(&text)),
            ntuple: parse::feature(&features, "ntuple-filters"),
            gro: parse::feature(&features, "generic-receive-offload"),
            rss: ask("-x").and_then(|text| {
                parse::rss_queues(&text).ok_or_else(|| "there is no table of queues".into())
            }),
            interrupts,
            interrupt_names,
            transmit_cpus: transmit_cpus(&directory),
            passed_on: queues
                .into_iter()
                .filter(|queue| {
                    let path = directory.join(format!("queues/rx-{queue}/rps_cpus"));
                    read_mask(&path).is_some_and(|cpus| !cpus.is_empty())
                })
                .collect(),
            interrupt_delay_us,
            interrupt_delay_adaptive,
        })
    }

    /// The interface's directory in sysfs, which shows whether there is one.
    pub fn directory(&self, name: &str) -> Result<PathBuf, String> {
        let directory = self.root.join("sys/class/net").join(name);
        match directory.join("ifindex").exists() {
            true => Ok(directory),
            false => Err(format!("there is no interface {name}")),
        }
    }

    /// The interrupts of a device that belong to queues, and the names of all.
    fn interrupts(&self, directory: &Path) -> (Vec<Interrupt>, Vec<String>) {
        // A virtio device is one step below the device on the bus that has the interrupts.
        let places = ["device/msi_irqs", "device/../msi_irqs"];
        let own = places
            .iter()
            .map(|place| numbered(&directory.join(place), ""))
            .find(|numbers| !numbers.is_empty())
            .unwrap_or_default();
        let table = read(&self.root.join("proc/interrupts")).unwrap_or_default();
        let (mut found, mut names) = (Vec::new(), Vec::new());
        for (number, name) in interrupts::parse_table(&table) {
            if !own.contains(&(number as usize)) {
                continue;
            }
            names.push(name.to_owned());
            if let Some((queue, direction)) = interrupts::queue_of(name) {
                let path = format!("proc/irq/{number}/smp_affinity_list");
                found.push(Interrupt {
                    number,
                    queue,
                    direction,
                    cpus: self.list(&path).unwrap_or_default(),
                });
            }
        }
        (found, names)
    }

    /// Returns true if a process of this name runs.
    pub fn runs(&self, name: &str) -> bool {
        let processes = fs::read_dir(self.root.join("proc"));
        processes
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| read(&entry.path().join("comm")).is_some_and(|found| found == name))
    }

    /// A list of numbers from a file below the root.
    pub fn list(&self, path: &str) -> Result<Vec<usize>, String> {
        let path = self.root.join(path);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        cpus::parse_list(&text)
    }
}

/// The kind of an interface.
fn kind(directory: &Path) -> Kind {
    if read(&directory.join("type")).as_deref() == Some(TYPE_LOOPBACK) {
        return Kind::Loopback;
    }
    let below: Vec<_> = names(directory)
        .into_iter()
        .filter_map(|name| name.strip_prefix("lower_").map(str::to_owned))
        .collect();
    if !below.is_empty() {
        return Kind::Above(below);
    }
    match directory.join("device").exists() {
        true => Kind::Device,
        false => Kind::Virtual,
    }
}

/// The CPUs of each transmit queue. The kernel refuses to tell where there is but one queue.
fn transmit_cpus(directory: &Path) -> BTreeMap<usize, Cpus> {
    let queues = numbered(&directory.join("queues"), "tx-").into_iter();
    queues
        .filter_map(|queue| {
            let path = directory.join(format!("queues/tx-{queue}/xps_cpus"));
            Some((queue, read_mask(&path)?))
        })
        .collect()
}

/// The numbers behind `prefix` in the names of a directory's entries, in order.
fn numbered(directory: &Path, prefix: &str) -> Vec<usize> {
    let mut numbers: Vec<_> =
        names(directory).iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The names in a directory; none where it cannot be read.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}

fn read_mask(path: &Path) -> Option<Cpus> {
    cpus::parse_mask(&read(path)?)
}
