//! Compares the memory that a server may use with what there is, before anything is touched.

use std::path::{Path, PathBuf};

use micanite_control::size;
use nix::sys::statfs::{HUGETLBFS_MAGIC, TMPFS_MAGIC, statfs};

use crate::configuration::Settings;
use crate::serve::{EXIT_USAGE, Failure, report};
use crate::telemetry::log::start;

/// Memory of this machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    total: usize,
    /// Memory that processes can have without swapping, reserved huge pages included.
    available: usize,
}

/// Warns of less memory than the server may use, and refuses more items than the machine has memory for. An
/// image in a file system of memory counts, one on a disk does not. What an image, or the kernel's maps, hold
/// already is not looked at: it may be in use.
pub(in crate::serve) fn check(settings: &Settings) -> Result<(), Failure> {
    warn_of_group(report::bytes_max(settings));
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match Machine::of(&meminfo) {
        Some(machine) if settings.image.is_none() && settings.kernel_get.is_none() => {
            doubt_most(settings, machine);
            refuse_too_much(settings.memory_bytes, machine)?;
            doubt_available(settings.memory_bytes, machine);
            Ok(())
        }
        Some(machine) if settings.image.as_deref().is_some_and(is_in_memory) => {
            doubt_most(settings, machine);
            refuse_too_much(settings.memory_bytes, machine)
        }
        _ => Ok(()),
    }
}

/// Returns whether the files of a directory, which may be made yet, take memory instead of a disk.
fn is_in_memory(directory: &Path) -> bool {
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    statfs(existing).is_ok_and(|of| [TMPFS_MAGIC, HUGETLBFS_MAGIC].contains(&of.filesystem_type()))
}

/// Warns of a limit that could be raised to more than the machine has.
fn doubt_most(settings: &Settings, machine: Machine) {
    let most = settings.memory_bytes_max;
    if most > settings.memory_bytes && most > machine.total {
        start!(
            WARN,
            "--memory-max allows {}, and this machine has {}: a limit above that would make the kernel \
             swap, or end processes; choose less",
            size::text(most),
            size::text(machine.total)
        );
    }
}

fn refuse_too_much(memory_bytes: usize, machine: Machine) -> Result<(), Failure> {
    if memory_bytes <= machine.total {
        return Ok(());
    }
    let (wanted, total) = (size::text(memory_bytes), size::text(machine.total));
    let text = format!("-m/--memory-limit: {wanted} is more than the memory of this machine, {total}");
    Err(Failure { code: EXIT_USAGE, text })
}

fn doubt_available(memory_bytes: usize, machine: Machine) {
    if memory_bytes > machine.available {
        start!(
            WARN,
            "-m asks for {}, and this machine has {} available now: as it fills, the kernel will swap or end \
             processes; less with -m, or end others",
            size::text(memory_bytes),
            size::text(machine.available)
        );
    }
}

impl Machine {
    /// Reads what `/proc/meminfo` says. `None`: it does not say it.
    fn of(meminfo: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<usize>().ok()
        };
        let huge = field("HugePages_Free").unwrap_or(0) * field("Hugepagesize").unwrap_or(0);
        Some(Self { total: field("MemTotal")? * 1024, available: (field("MemAvailable")? + huge) * 1024 })
    }
}

/// Warns when what the server may use is more than its control group allows: the kernel would
/// kill it as it fills.
fn warn_of_group(needed_bytes: usize) {
    let Some(limit_bytes) = memory_limit_bytes() else {
        return;
    };
    if needed_bytes > limit_bytes {
        start!(
            WARN,
            "this control group (container, service) allows {} of memory, and the server may take {}: the \
             kernel would end it; less with -m and -c, or allow more",
            size::text(limit_bytes),
            size::text(needed_bytes)
        );
    }
}

/// The memory that the control group of this process may have, if that is limited.
pub fn memory_limit_bytes() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit(Path::new("/sys/fs/cgroup"), &groups)
}

/// The least limit on the way from the process's group to the root. `groups` is what
/// `/proc/self/cgroup` says. In a container the root that is seen may be the group itself.
fn limit(root: &Path, groups: &str) -> Option<usize> {
    groups
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, group) = (fields.next()?, fields.next()?.trim_start_matches('/'));
            match controllers {
                "" => least(root, group, "memory.max"),
                _ if controllers.split(',').any(|name| name == "memory") => {
                    least(&root.join("memory"), group, "memory.limit_in_bytes")
                }
                _ => None,
            }
        })
        .min()
}

fn least(root: &Path, group: &str, file: &str) -> Option<usize> {
    let group: PathBuf = root.join(group);
    let groups = group.ancestors().take_while(|path| path.starts_with(root));
    groups
        .filter_map(|path| std::fs::read_to_string(path.join(file)).ok())
        // "max" is no number, and no limit.
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       2097152 kB\nMemFree: 1 kB\nMemAvailable:   1048576 kB\n\
        HugePages_Free:       64\nHugepagesize:       2048 kB\n";

    #[test]
    fn reserved_huge_pages_are_available() {
        let machine = Machine::of(MEMINFO).unwrap();
        assert_eq!(machine, Machine { total: 2 << 30, available: (1 << 30) + (128 << 20) });
        assert_eq!(Machine::of("MemTotal: 5 kB\n"), None);
    }

    #[test]
    fn more_than_the_machine_has_is_refused() {
        let machine = Machine::of(MEMINFO).unwrap();
        assert!(refuse_too_much(2 << 30, machine).is_ok());
        let refused = refuse_too_much((2 << 30) + 1, machine).unwrap_err();
        assert_eq!(refused.code, EXIT_USAGE);
        assert!(refused.text.contains("memory of this machine, 2 GiB"), "{}", refused.text);
    }

    #[test]
    fn files_in_memory_are_known() {
        assert!(is_in_memory(Path::new("/dev/shm/not/there/yet")) && !is_in_memory(Path::new("/proc/self")));
    }

    fn tree(files: &[(&str, &str)]) -> PathBuf {
        let unique = format!("micanite-cgroup-{}-{}", std::process::id(), files.len());
        let root = std::env::temp_dir().join(unique);
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_limit_of_all_levels_counts() {
        let root = tree(&[
            ("memory.max", "max\n"),
            ("system.slice/memory.max", "1073741824\n"),
            ("system.slice/micanite.service/memory.max", "2147483648\n"),
        ]);
        let groups = "0::/system.slice/micanite.service\n";
        assert_eq!(limit(&root, groups), Some(1 << 30));
        assert_eq!(limit(&root, "0::/elsewhere\n"), None);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_old_hierarchy_and_a_container_s_own_root() {
        let root = tree(&[("memory/memory.limit_in_bytes", "134217728\n"), ("memory.max", "268435456")]);
        let groups = "9:name=systemd:/\n4:cpu,memory:/not/seen/here\n0::/\n";
        assert_eq!(limit(&root, groups), Some(128 << 20));
        assert_eq!(limit(&root, "0::/\n"), Some(256 << 20));
        std::fs::remove_dir_all(root).unwrap();
    }
}
