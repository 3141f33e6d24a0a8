//! Directory of a server: hash seed, cores, owners, interfaces.

use std::collections::HashMap;

use micanite_wire::hash::KeyHash;
use micanite_wire::native::{
    CoreEntry, CorePlace, Directory, Entry, InterfaceAddress, PartitionAccess, PartitionEntry,
};

/// Generations of a run that a client may miss between two directories.
const GENERATIONS_MAX: u32 = 1 << 16;

/// One generation of the directory.
#[derive(Clone, Debug)]
pub(in crate::driver) struct Map {
    pub(in crate::driver) generation: u32,
    pub(in crate::driver) facts: Directory,
    partition_bits: u32,
    pub(in crate::driver) cores: Vec<CoreEntry>,
    partitions: Vec<PartitionEntry>,
    /// Place of each core; none if all cores are at the address that the client was given.
    pub(in crate::driver) places: Vec<CorePlace>,
    pub(in crate::driver) addresses: Vec<InterfaceAddress>,
    /// Number of the next missing entry.
    next: u32,
    /// Next core of the same NUMA node, for each core.
    next_in_node: Vec<u16>,
    /// Next reader of a node, in the entry of the node's first core.
    reader: Vec<u16>,
    first_in_node: Vec<u16>,
}

impl Map {
    /// Starts a directory without entries.
    pub(in crate::driver) fn begin(generation: u32, facts: Directory) -> Self {
        Self {
            generation,
            facts,
            partition_bits: facts.partitions.trailing_zeros(),
            cores: Vec::with_capacity(usize::from(facts.cores)),
            partitions: Vec::with_capacity(facts.partitions as usize),
            places: Vec::new(),
            addresses: Vec::new(),
            next: 0,
            next_in_node: Vec::new(),
            reader: Vec::new(),
            first_in_node: Vec::new(),
        }
    }

    /// Returns whether the directory may be a later one of the same run of the same server.
    pub(in crate::driver) fn follows(&self, earlier: &Self) -> bool {
        let steps = self.generation.wrapping_sub(earlier.generation);
        self.facts.hash_seed == earlier.facts.hash_seed && steps <= GENERATIONS_MAX
    }

    /// Returns the number of the next missing entry.
    pub(in crate::driver) fn next(&self) -> u32 {
        self.next
    }

    /// Adds entries from `first` on; returns whether they are valid and continue the existing ones.
    pub(in crate::driver) fn extend(&mut self, first: u32, entries: &[u8]) -> bool {
        if first != self.next() {
            return false;
        }
        let mut rest = entries;
        while !rest.is_empty() {
            let Some(entry) = self.facts.entry(self.next, rest) else {
                return false;
            };
            match entry {
                Entry::Core(core) => self.cores.push(core),
                Entry::Partition(partition) => self.partitions.push(partition),
                Entry::Place(place) => self.places.push(place),
                Entry::Address(address) => self.addresses.push(address),
            }
            self.next += entry.numbers();
            rest = &entries[(self.next - first) as usize * 4..];
        }
        true
    }

    pub(in crate::driver) fn is_complete(&self) -> bool {
        self.next() == self.facts.all_entries()
    }

    /// Completes the directory once all entries are present.
    pub(in crate::driver) fn finish(&mut self) {
        let cores = self.cores.len();
        self.next_in_node = (0..cores as u16).collect();
        self.first_in_node = (0..cores as u16).collect();
        // First and last core of each node so far: a directory may name a node for every core.
        let mut ends = HashMap::new();
        for core in 0..cores as u16 {
            let (first, last) = ends.entry(self.cores[usize::from(core)].node).or_insert((core, core));
            self.first_in_node[usize::from(core)] = *first;
            self.next_in_node[usize::from(*last)] = core;
            self.next_in_node[usize::from(core)] = *first;
            *last = core;
        }
        self.reader = self.first_in_node.clone();
    }

    /// Returns the partition of a key, with its owner and access mode.
    #[inline]
    pub(in crate::driver) fn find(&self, hash: u64) -> (u16, PartitionEntry) {
        let partition = KeyHash(hash).partition(self.partition_bits);
        let entry = self.partitions[partition];
        (partition as u16, entry)
    }

    /// Returns the core for the next plain get under CREW.
    #[inline]
    pub(in crate::driver) fn reader(&self, owner: u16, node: Option<u16>) -> u16 {
        self.reader[usize::from(self.first_reader(owner, node))]
    }

    /// Returns the first core of the node whose cores answer plain gets under CREW.
    #[inline]
    pub(in crate::driver) fn first_reader(&self, owner: u16, node: Option<u16>) -> u16 {
        let member = node.and_then(|node| self.cores.iter().position(|core| core.node == node));
        self.first_in_node[member.unwrap_or(usize::from(owner))]
    }

    /// Returns the cores of a node, from its first one on.
    pub(in crate::driver) fn of_node(&self, first: u16) -> impl Iterator<Item = u16> {
        std::iter::successors(Some(first), move |core| {
            Some(self.next_in_node[usize::from(*core)]).filter(|next| *next != first)
        })
    }

    /// Advances the reader of a core's node.
    pub(in crate::driver) fn turn(&mut self, core: u16) {
        let Some(first) = self.first_in_node.get(usize::from(core)) else {
            return;
        };
        let first = usize::from(*first);
        self.reader[first] = self.next_in_node[usize::from(core)];
    }

    /// Returns whether any core of a node may answer plain gets of the partition.
    #[inline]
    pub(in crate::driver) fn is_shared(entry: PartitionEntry) -> bool {
        entry.access == PartitionAccess::Crew
    }
}
