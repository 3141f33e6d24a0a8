//! The kernel's threads that poll the ends of cables: found by their names, and pinned.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::Result;

/// Finds the threads that poll interfaces of this name, in all networks.
pub(crate) fn threads(interface: &str) -> Result<Vec<u32>> {
    let prefix = format!("napi/{interface}-");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended since.
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.starts_with(&prefix) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Pins the threads that poll an interface and are not among those before; returns them.
pub(crate) fn pin(interface: &str, before: &[u32], cpu: usize) -> Result<Vec<u32>> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    let mut new = threads(interface)?;
    new.retain(|pid| !before.contains(pid));
    if new.is_empty() {
        return Err(format!("no thread of the kernel's polls {interface}").into());
    }
    for pid in &new {
        sched_setaffinity(Pid::from_raw(*pid as i32), &set)?;
    }
    Ok(new)
}
