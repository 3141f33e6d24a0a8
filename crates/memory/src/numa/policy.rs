//! Sets of nodes, and policies for the choice of a node.

use std::fmt;

/// Nodes are numbered from 0 to one less than this, as in the kernel's largest configuration.
pub const NODES_MAX: usize = 1024;
const WORDS: usize = NODES_MAX / 64;

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeSet(pub(super) [u64; WORDS]);

impl NodeSet {
    /// Adds a node. A number that no kernel has is ignored.
    pub fn insert(&mut self, node: u16) {
        if let Some(word) = self.0.get_mut(usize::from(node) / 64) {
            *word |= 1 << (node % 64);
        }
    }

    /// Returns whether a node belongs to the set.
    pub fn contains(&self, node: u16) -> bool {
        let word = self.0.get(usize::from(node) / 64);
        word.is_some_and(|word| word >> (node % 64) & 1 == 1)
    }

    /// Returns the nodes in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..NODES_MAX as u16).filter(|node| self.contains(*node))
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<u16> for NodeSet {
    fn from_iter<I: IntoIterator<Item = u16>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

/// Writes the numbers with commas.
impl fmt::Display for NodeSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, node) in self.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(formatter, "{comma}{node}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// A policy for the choice of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One node, as long as it has room.
    Prefer(u16),
    /// All of these in turn, page by page.
    Interleave(NodeSet),
}

impl Policy {
    /// Returns whether a page on a node may stay there. Interleaved pages may stay on any of the nodes.
    pub fn allows(&self, node: u16) -> bool {
        match self {
            Self::Prefer(wanted) => *wanted == node,
            Self::Interleave(nodes) => nodes.contains(node),
        }
    }

    /// Returns the node for a page that has to move; `number` counts them. None without a node.
    pub fn node_for(&self, number: usize) -> Option<u16> {
        match self {
            Self::Prefer(node) => Some(*node),
            Self::Interleave(nodes) => nodes.iter().nth(number.checked_rem(nodes.len())?),
        }
    }
}

/// Writes the number of the node, or the numbers with commas.
impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefer(node) => node.fmt(formatter),
            Self::Interleave(nodes) => nodes.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_its_nodes_in_order() {
        let set: NodeSet = [65, 0, 1023, 3, 3, 1024].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 65, 1023]);
        assert_eq!((set.len(), set.to_string()), (4, "0,3,65,1023".to_owned()));
        assert!(!set.contains(1) && !set.contains(u16::MAX));
        assert!(NodeSet::default().is_empty());
    }

    #[test]
    fn an_interleaved_page_may_stay_on_any_node_of_the_set() {
        let interleave = Policy::Interleave([1, 4].into_iter().collect());
        assert!(interleave.allows(1) && interleave.allows(4) && !interleave.allows(0));
        let chosen: Vec<_> = (0..4).filter_map(|number| interleave.node_for(number)).collect();
        assert_eq!(chosen, [1, 4, 1, 4]);
        assert_eq!(Policy::Interleave(NodeSet::default()).node_for(0), None);
        let prefer = Policy::Prefer(4);
        assert!(prefer.allows(4) && !prefer.allows(1));
        assert_eq!(prefer.node_for(7), Some(4));
    }
}
