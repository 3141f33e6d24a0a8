//! Moves the pages of a part of a region to where its policy wants them.

use std::io;

use super::policy::Policy;
use crate::{PAGE_BYTES, Region, WORD_BYTES};

/// Result of a walk over a part of a region, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Pages that were where the policy wants them.
    pub in_place: u64,
    /// Pages that moved.
    pub moved: u64,
    /// Pages for which the node has no room.
    pub no_room: u64,
    /// Pages that other processes map as well, and that this one may not move.
    pub shared: u64,
    /// Pages that the kernel could not move at this moment.
    pub busy: u64,
}

impl Moved {
    /// Returns the pages that should have moved and did not.
    pub fn failed(&self) -> u64 {
        self.no_room + self.shared + self.busy
    }

    /// Adds the result of another part.
    pub fn add(&mut self, other: &Self) {
        self.in_place += other.in_place;
        self.moved += other.moved;
        self.no_room += other.no_room;
        self.shared += other.shared;
        self.busy += other.busy;
    }
}

/// The system calls that a walk makes; tests have their own.
trait Calls {
    fn find(&self, pages: &[usize], nodes: &mut [i32]) -> io::Result<()>;
    fn relocate(&self, pages: &[usize], nodes: &[i32], states: &mut [i32]) -> io::Result<()>;
}

struct Kernel<'a> {
    region: &'a Region,
    shared: bool,
}

impl Calls for Kernel<'_> {
    fn find(&self, pages: &[usize], nodes: &mut [i32]) -> io::Result<()> {
        self.region.find_nodes(pages, nodes)
    }

    fn relocate(&self, pages: &[usize], nodes: &[i32], states: &mut [i32]) -> io::Result<()> {
        self.region.move_to_nodes(pages, nodes, states, self.shared)
    }
}

impl Region {
    /// Moves pages among the `bytes` from `first_byte` on, a multiple of the page size, to where a policy
    /// wants them. Others use the memory meanwhile. Pages that are not present are not looked at. `shared`:
    /// also moves pages that other processes map, for which the kernel wants `CAP_SYS_NICE`.
    ///
    /// # Errors
    /// Returns the error of `move_pages`, unless a node has no room, or that of `mincore`.
    pub fn move_by_policy(
        &self,
        first_byte: usize,
        bytes: usize,
        policy: &Policy,
        shared: bool,
    ) -> io::Result<Moved> {
        let unit = self.unit_bytes();
        let end = (first_byte + bytes).min(self.words() * WORD_BYTES);
        if first_byte >= end {
            return Ok(Moved::default());
        }
        self.map_resident(first_byte, end - first_byte)?;
        let pages: Vec<usize> = (first_byte..end).step_by(unit).collect();
        let mut moved = walk(&Kernel { region: self, shared }, pages, policy)?;
        let scale = (unit / PAGE_BYTES) as u64;
        for count in
            [&mut moved.in_place, &mut moved.moved, &mut moved.no_room, &mut moved.shared, &mut moved.busy]
        {
            *count *= scale;
        }
        Ok(moved)
    }

    /// Returns the nodes of at most `samples` pages, spread evenly; pages that are not present have none.
    ///
    /// # Errors
    /// Returns the error of `move_pages`.
    pub fn nodes_of_samples(&self, samples: usize) -> io::Result<Vec<u16>> {
        let bytes = self.words() * WORD_BYTES;
        let unit = self.unit_bytes();
        let step = (bytes / samples.max(1)).next_multiple_of(unit);
        // Interleaved pages repeat at a distance, so each sample lies elsewhere in its part.
        let within = |number: usize| (number.wrapping_mul(0x9e37_79b1) >> 8) % (step / unit) * unit;
        let pages = (0..bytes).step_by(step).enumerate().map(|(number, first)| first + within(number));
        let pages: Vec<usize> = pages.filter(|page| *page < bytes).collect();
        let mut nodes = vec![-libc::ENOENT; pages.len()];
        self.find_nodes(&pages, &mut nodes)?;
        Ok(nodes.into_iter().filter_map(|node| u16::try_from(node).ok()).collect())
    }
}

fn walk(kernel: &impl Calls, mut pages: Vec<usize>, policy: &Policy) -> io::Result<Moved> {
    let mut result = Moved::default();
    let mut nodes = vec![-libc::ENOENT; pages.len()];
    kernel.find(&pages, &mut nodes)?;
    let mut found = nodes.iter();
    pages.retain(|_| {
        let node = found.next().and_then(|node| u16::try_from(*node).ok());
        let is_in_place = node.is_some_and(|node| policy.allows(node));
        result.in_place += u64::from(is_in_place);
        node.is_some() && !is_in_place
    });
    let wanted = (0..pages.len()).map(|number| policy.node_for(number).map(i32::from));
    let Some(wanted) = wanted.collect::<Option<Vec<_>>>() else {
        return Ok(result);
    };
    if pages.is_empty() {
        return Ok(result);
    }
    let mut states = vec![-libc::EBUSY; pages.len()];
    let is_full = match kernel.relocate(&pages, &wanted, &mut states) {
        // Linux allocates nothing but the new pages here, so a node that has no room fails the whole call.
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => true,
        done => done.map(|()| false)?,
    };
    // The states do not say all: a huge page moves with its first small one, and the call ends early where
    // the node has no room. So the kernel is asked once more.
    let mut nodes = vec![-libc::ENOENT; pages.len()];
    kernel.find(&pages, &mut nodes)?;
    for (node, state) in nodes.into_iter().zip(states) {
        match u16::try_from(node) {
            Ok(node) if policy.allows(node) => result.moved += 1,
            // It has gone in the meantime.
            Err(_) if node == -libc::ENOENT || node == -libc::EFAULT => {}
            _ if state == -libc::EACCES => result.shared += 1,
            _ if is_full || state == -libc::ENOMEM => result.no_room += 1,
            _ => result.busy += 1,
        }
    }
    Ok(result)
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests;
