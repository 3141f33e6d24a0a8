//! The memory that a container or a service may have at most, and whether it is enough.

use std::path::{Path, PathBuf};

use micanite_control::log;
use micanite_control::size;

/// Warns when what the server may use is more than its control group allows: the kernel would
/// kill it as it fills.
pub(super) fn warn(needed_bytes: usize) {
    let Some(limit_bytes) = memory_limit_bytes() else {
        return;
    };
    if needed_bytes > limit_bytes {
        log!(
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
