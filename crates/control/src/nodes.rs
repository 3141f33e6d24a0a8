//! The NUMA nodes of the machine, as its sysfs shows them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Directory of the nodes.
const NODES: &str = "sys/devices/system/node";
/// Higher numbers are no CPUs: a range to them would fill memory.
const CPU_MAX: usize = 65_535;

/// The online nodes, each with its CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes(BTreeMap<u16, Vec<usize>>);

impl Nodes {
    /// Returns those of this machine; none where the kernel does not tell.
    pub fn here() -> Self {
        Self::at(Path::new("/"))
    }

    /// Returns those of a machine whose sysfs is below a directory.
    pub fn at(root: &Path) -> Self {
        let directory = root.join(NODES);
        let numbers = |path: &Path| fs::read_to_string(path).ok().and_then(|text| parse_list(&text).ok());
        let online = numbers(&directory.join("online")).unwrap_or_default();
        let node = |number: usize| {
            let cpus = numbers(&directory.join(format!("node{number}/cpulist"))).unwrap_or_default();
            Some((number.try_into().ok()?, cpus))
        };
        online.into_iter().filter_map(node).collect()
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the node of a CPU.
    pub fn of_cpu(&self, cpu: usize) -> Option<u16> {
        self.0.iter().find_map(|(node, cpus)| cpus.contains(&cpu).then_some(*node))
    }
}

/// Takes nodes with their CPUs.
impl FromIterator<(u16, Vec<usize>)> for Nodes {
    fn from_iter<I: IntoIterator<Item = (u16, Vec<usize>)>>(nodes: I) -> Self {
        Self(nodes.into_iter().collect())
    }
}

/// Reads a list such as `0-3,8`, in the order in which it names them.
///
/// # Errors
/// Text that is no such list.
pub fn parse_list(text: &str) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("'{part}' counts down"));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

fn number(word: &str) -> Result<usize, String> {
    match word.trim().parse() {
        Ok(cpu) if cpu <= CPU_MAX => Ok(cpu),
        _ => Err(format!("'{word}' is no CPU number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two nodes with CPUs in turns, and one of memory alone.
    #[test]
    fn nodes_and_their_cpus_come_from_sysfs() {
        let root = std::env::temp_dir().join(format!("micanite-nodes-of-{}", std::process::id()));
        let directory = root.join(NODES);
        for (path, text) in [
            ("online", "0-1,4\n"),
            ("node0/cpulist", "0,2-3\n"),
            ("node1/cpulist", "1\n"),
            ("node4/cpulist", "\n"),
        ] {
            fs::create_dir_all(directory.join(path).parent().unwrap()).unwrap();
            fs::write(directory.join(path), text).unwrap();
        }
        let nodes = Nodes::at(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(nodes.count(), 3);
        assert_eq!([0, 1, 3, 4].map(|cpu| nodes.of_cpu(cpu)), [Some(0), Some(1), Some(0), None]);
        assert_eq!(Nodes::at(&root), Nodes::default());
    }

    #[test]
    fn every_cpu_that_may_be_used_belongs_to_a_node_of_this_machine() {
        let nodes = Nodes::here();
        assert!(nodes.count() > 0);
        assert!(crate::cores::allowed().iter().all(|cpu| nodes.of_cpu(*cpu).is_some()));
    }
}
