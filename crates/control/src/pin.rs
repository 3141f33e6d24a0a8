//! The CPUs of a server's workers: the option `--pin`.

use std::str::FromStr;

use crate::nodes::{Nodes, parse_list};

/// The choice of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// As `on` where something relies on it, else as `off`.
    #[default]
    Auto,
    /// Each worker has a CPU: one of each physical core first, then their siblings.
    On,
    /// The kernel chooses, among those of a node where there are several.
    Off,
    /// Worker i has the i-th of these.
    Cpus(Vec<usize>),
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            list => match parse_list(list) {
                Ok(cpus) if !cpus.is_empty() => Ok(Self::Cpus(cpus)),
                _ => Err(format!("'{list}' is neither auto, on, off, nor a list of CPUs such as 0-3,8")),
            },
        }
    }
}

/// The CPUs of each worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// A CPU of each worker: the one where it is pinned, or one of its node.
    homes: Vec<usize>,
    is_pinned: bool,
    /// The CPUs that each worker keeps to; empty where the kernel chooses among all.
    kept: Vec<Vec<usize>>,
}

impl Placement {
    /// Places so many workers on the CPUs that this process may use. `needs_pins`: something other than the
    /// memory relies on it.
    ///
    /// # Errors
    /// The CPUs do not suffice, or may not be used.
    pub fn of(
        pin: &Pin,
        workers: usize,
        needs_pins: bool,
        (allowed, nodes): (&[usize], &Nodes),
    ) -> Result<Self, String> {
        let (fits, has_nodes) = (workers <= allowed.len(), nodes.count() > 1);
        let (is_pinned, cpus) = match pin {
            Pin::Off => (false, allowed),
            Pin::Auto => (fits && (needs_pins || has_nodes), allowed),
            Pin::On if fits => (true, allowed),
            Pin::On => {
                let count = allowed.len();
                return Err(format!("there are {workers} workers (-t), and {count} CPUs that may be used"));
            }
            Pin::Cpus(cpus) if cpus.len() < workers => {
                let (count, s) = (cpus.len(), if cpus.len() == 1 { "" } else { "s" });
                return Err(format!("there are {workers} workers (-t), and {count} CPU{s} in this list"));
            }
            Pin::Cpus(cpus) => (true, &cpus[..]),
        };
        let homes: Vec<usize> = cpus.iter().cycle().take(workers).copied().collect();
        if let Some(cpu) = homes.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(format!("CPU {cpu} may not be used; these may: {allowed:?}"));
        }
        let of_node = |home: &usize| match nodes.of_cpu(*home) {
            Some(node) => allowed.iter().copied().filter(|cpu| nodes.of_cpu(*cpu) == Some(node)).collect(),
            None => allowed.to_vec(),
        };
        let kept = match is_pinned {
            true => homes.iter().map(|cpu| vec![*cpu]).collect(),
            false if has_nodes => homes.iter().map(of_node).collect(),
            false => Vec::new(),
        };
        Ok(Self { homes, is_pinned, kept })
    }

    /// Returns a CPU of each worker, by which its node is known.
    pub fn homes(&self) -> &[usize] {
        &self.homes
    }

    /// Returns the CPU of each worker; none where they are not pinned.
    pub fn pinned(&self) -> &[usize] {
        if self.is_pinned { &self.homes } else { &[] }
    }

    /// Returns the CPUs that a worker keeps to, unless the kernel chooses among all.
    pub fn kept(&self, worker: usize) -> Option<&[usize]> {
        self.kept.get(worker).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u16) -> Nodes {
        (0..count).map(|node| (node, vec![usize::from(node), usize::from(node) + 2])).collect()
    }

    fn placed(pin: &str, workers: usize, needs_pins: bool, count: u16) -> Result<Placement, String> {
        Placement::of(&pin.parse()?, workers, needs_pins, (&[0, 1, 2, 3], &nodes(count)))
    }

    #[test]
    fn auto_pins_where_something_relies_on_it() {
        let pinned = |needs, count| placed("auto", 2, needs, count).unwrap().pinned().to_vec();
        assert_eq!(pinned(false, 1), []);
        assert_eq!((pinned(true, 1), pinned(false, 2)), (vec![0, 1], vec![0, 1]));
        assert_eq!(placed("auto", 5, true, 2).unwrap().pinned(), []);
        assert_eq!(placed("off", 2, true, 2).unwrap().pinned(), []);
    }

    #[test]
    fn workers_that_are_not_pinned_keep_to_their_node() {
        let off = placed("off", 5, false, 2).unwrap();
        assert_eq!(off.homes(), [0, 1, 2, 3, 0]);
        let kept: Vec<_> = (0..5).map(|worker| off.kept(worker).unwrap().to_vec()).collect();
        assert_eq!(kept, [[0, 2], [1, 3], [0, 2], [1, 3], [0, 2]]);
        assert_eq!(placed("off", 2, false, 1).unwrap().kept(0), None);
        assert_eq!(placed("on", 2, false, 2).unwrap().kept(1), Some(&[1][..]));
    }

    #[test]
    fn a_list_names_the_cpu_of_each_worker() {
        assert_eq!(placed("3,0-1", 2, false, 1).unwrap().pinned(), [3, 0]);
        let refused = |pin, workers| placed(pin, workers, false, 1).unwrap_err();
        assert_eq!(refused("3", 2), "there are 2 workers (-t), and 1 CPU in this list");
        assert_eq!(refused("3,4", 2), "CPU 4 may not be used; these may: [0, 1, 2, 3]");
        assert_eq!(refused("on", 5), "there are 5 workers (-t), and 4 CPUs that may be used");
        for wrong in ["", "On", "1-", "a", "2-1"] {
            assert!(refused(wrong, 1).contains("list of CPUs"), "{wrong}");
        }
    }
}
