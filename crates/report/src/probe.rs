//! What this machine has and lacks: looked for, not assumed.

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

use crate::files::target;

/// Why network namespaces and programs in the kernel are out of reach, if so.
pub(crate) fn lacks_root() -> Option<String> {
    (!Uid::effective().is_root())
        .then(|| "It needs root: for network namespaces and programs in the kernel.".into())
}

/// Why what stands or falls with memcached is out of reach, if so.
pub(crate) fn lacks_memcached() -> Option<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut installed = std::env::split_paths(&folders).map(|folder| folder.join("memcached"));
    let is_here = target("peers/bin/memcached").exists() || installed.any(|path| path.is_file());
    (!is_here).then(|| "It stands beside memcached, which scripts/peer-memcached unpacks.".into())
}

fn entries(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("")
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

/// Devices that do RDMA.
pub(crate) fn rdma_devices() -> Vec<String> {
    let devices = entries("/sys/class/infiniband");
    devices
        .iter()
        .map(|device| name(device).to_owned())
        .collect()
}

/// Whether the CPU's performance counters can be used.
pub(crate) fn has_cpu_counters() -> bool {
    let sources = entries("/sys/bus/event_source/devices");
    sources.iter().any(|source| name(source).starts_with("cpu"))
}

/// Whether the machine tells what its packages consume.
pub(crate) fn has_energy_meters() -> bool {
    entries("/sys/class/powercap")
        .iter()
        .any(|zone| read_to_string(zone.join("energy_uj")).is_ok())
}
