//! Share of this process's memory on huge pages, by the kernel's count.

use crate::Result;

/// Anonymous memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resident {
    all: u64,
    huge: u64,
}

impl Resident {
    pub fn now() -> Result<Self> {
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
        Ok(Self { all: bytes_of(&rollup, "Anonymous:"), huge: bytes_of(&rollup, "AnonHugePages:") })
    }

    /// Returns how much of the memory added since `before` is on huge pages, in percent.
    pub fn huge_percent_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let huge = self.huge.saturating_sub(before.huge);
        huge as f64 / all.max(1) as f64 * 100.0
    }
}

fn bytes_of(rollup: &str, field: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes.and_then(|n| n.parse().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_percent_counts_added_memory_only() {
        let rollup = "Rss:  99 kB\nAnonymous:         300 kB\nAnonHugePages:    150 kB\n";
        let now = Resident { all: bytes_of(rollup, "Anonymous:"), huge: bytes_of(rollup, "AnonHugePages:") };
        assert_eq!((now.all, now.huge), (300 << 10, 150 << 10));
        let before = Resident { all: 100 << 10, huge: 50 << 10 };
        assert_eq!(now.huge_percent_since(before), 50.0);
    }

    #[test]
    fn resident_memory_is_read() {
        assert!(Resident::now().unwrap().all > 0);
    }
}
