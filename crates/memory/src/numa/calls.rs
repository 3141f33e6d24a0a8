//! The system calls. The C library has no functions for them.

use std::io;
use std::ptr;

use super::policy::{NODES_MAX, NodeSet, Policy};
use crate::{HUGE_PAGE_BYTES, PAGE_BYTES, Pages, Region, WORD_BYTES};

/// Flags of `get_mempolicy` and `move_pages`, as Linux defines them (`linux/mempolicy.h`).
const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 1 << 2;
const MPOL_MF_MOVE: libc::c_int = 1 << 1;
const MPOL_MF_MOVE_ALL: libc::c_int = 1 << 2;
/// Bits of a policy's number that are flags.
const MODE_FLAGS: libc::c_int =
    libc::MPOL_F_STATIC_NODES | libc::MPOL_F_RELATIVE_NODES | libc::MPOL_F_NUMA_BALANCING;
/// The kernel takes one bit less than it is told.
const MASK_BITS: usize = NODES_MAX + 1;

/// Number and nodes of a policy, as the kernel takes them.
fn packed(policy: Option<&Policy>) -> (libc::c_int, NodeSet) {
    match policy {
        None => (libc::MPOL_DEFAULT, NodeSet::default()),
        Some(Policy::Prefer(node)) => (libc::MPOL_PREFERRED, [*node].into_iter().collect()),
        Some(Policy::Interleave(nodes)) => (libc::MPOL_INTERLEAVE, *nodes),
    }
}

/// Returns the nodes that this process may have memory of.
///
/// # Errors
/// Returns the kernel's error.
pub fn nodes_allowed() -> io::Result<NodeSet> {
    let mut nodes = NodeSet::default();
    let (mode, address) = (ptr::null_mut::<libc::c_int>(), ptr::null::<libc::c_void>());
    let mask = nodes.0.as_mut_ptr();
    // SAFETY: the kernel writes so many bits, rounded to whole words, into the set, which has them.
    let result = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, mode, mask, MASK_BITS, address, MPOL_F_MEMS_ALLOWED)
    };
    done(result).map(|_| nodes)
}

/// Returns the name of this thread's policy, if somebody (`numactl`, for one) has given it another one than
/// the kernel's own.
///
/// # Errors
/// Returns the kernel's error.
pub fn policy_of_thread() -> io::Result<Option<&'static str>> {
    let mut mode: libc::c_int = 0;
    let (mask, address) = (ptr::null_mut::<u64>(), ptr::null::<libc::c_void>());
    let flags: libc::c_ulong = 0;
    // SAFETY: the kernel writes the number of the policy into the variable, and nothing else.
    let result =
        unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask, 0usize, address, flags) };
    done(result)?;
    Ok(match mode & !MODE_FLAGS {
        libc::MPOL_DEFAULT => None,
        libc::MPOL_PREFERRED => Some("preferred"),
        libc::MPOL_BIND => Some("bind"),
        libc::MPOL_INTERLEAVE => Some("interleave"),
        libc::MPOL_LOCAL => Some("local"),
        _ => Some("of another kind"),
    })
}

/// Runs `run` while pages that this thread touches first come by a policy, as far as the kernel lets it. The
/// thread has the kernel's own policy afterwards.
pub fn with_policy<R>(policy: &Policy, run: impl FnOnce() -> R) -> R {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            // It was not refused before, and memory comes from some node in any case.
            let _ = set_policy(None);
        }
    }
    let _back = set_policy(Some(policy)).ok().map(|()| Back);
    run()
}

fn set_policy(policy: Option<&Policy>) -> io::Result<()> {
    let (mode, nodes) = packed(policy);
    let (mask, bits) = mask(&nodes);
    // SAFETY: the kernel reads so many bits of the set, which has them; no memory changes.
    done(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) }).map(drop)
}

/// Words and bits of a set; none for an empty one, which the kernel wants so.
fn mask(nodes: &NodeSet) -> (*const u64, usize) {
    if nodes.is_empty() { (ptr::null(), 0) } else { (nodes.0.as_ptr(), MASK_BITS) }
}

fn done(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Returns an error of `mincore`, whose ENOMEM does not mean that memory is short.
pub(super) fn not_mapped(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOMEM) => io::Error::other("mincore: a page of the range is not mapped"),
        _ => error,
    }
}

impl Region {
    /// Lets pages that are touched from now on come by a policy, or by that of the thread that touches them.
    /// Pages that are there stay where they are. Files on a disk ignore it.
    ///
    /// # Errors
    /// Returns the error of `mbind`.
    pub fn bind(&self, policy: Option<&Policy>) -> io::Result<()> {
        let (mode, nodes) = packed(policy);
        let (mask, bits) = mask(&nodes);
        let (start, flags) = (self.address(0), 0 as libc::c_uint);
        let bytes = self.words() * WORD_BYTES;
        // SAFETY: the range is mapped by this region, and its contents do not change. The kernel reads so
        // many bits of the set, which has them.
        done(unsafe { libc::syscall(libc::SYS_mbind, start, bytes, mode, mask, bits, flags) }).map(drop)
    }

    /// Returns the bytes of the pages that can be on different nodes. Transparent huge pages count as small
    /// ones, because the kernel may split them.
    pub(super) fn unit_bytes(&self) -> usize {
        if self.pages() == Pages::Hugetlb { HUGE_PAGE_BYTES } else { PAGE_BYTES }
    }

    /// Stores the node of each page at a byte of the region, or the kernel's error, negative, without one.
    pub(super) fn find_nodes(&self, pages: &[usize], nodes: &mut [i32]) -> io::Result<()> {
        let flags: libc::c_int = 0;
        self.call_move_pages(pages, ptr::null(), nodes, flags)
    }

    /// Moves each page at a byte of the region to its node, also pages of several processes if `shared`.
    /// Stores its node, or the kernel's error, into `states`: a page that the kernel did not come to keeps
    /// its state.
    pub(super) fn move_to_nodes(
        &self,
        pages: &[usize],
        nodes: &[i32],
        states: &mut [i32],
        shared: bool,
    ) -> io::Result<()> {
        assert!(nodes.len() == pages.len());
        let flags = if shared { MPOL_MF_MOVE_ALL } else { MPOL_MF_MOVE };
        self.call_move_pages(pages, nodes.as_ptr(), states, flags)
    }

    fn call_move_pages(
        &self,
        pages: &[usize],
        nodes: *const i32,
        states: &mut [i32],
        flags: libc::c_int,
    ) -> io::Result<()> {
        assert!(states.len() == pages.len());
        let addresses: Vec<_> = pages.iter().map(|page| self.address(*page)).collect();
        let (this, count) = (0 as libc::pid_t, addresses.len());
        let (addresses, states) = (addresses.as_ptr(), states.as_mut_ptr());
        // SAFETY: addresses, nodes (if any) and states have so many elements. The kernel keeps the contents
        // of pages that it moves, and lets no thread see a page halfway.
        let result =
            unsafe { libc::syscall(libc::SYS_move_pages, this, count, addresses, nodes, states, flags) };
        match done(result) {
            // Kernels before 4.17 say so where there is nothing to move.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Maps pages of a file that are in memory, so that they can be found and moved. Reads nothing from a
    /// disk.
    pub(super) fn map_resident(&self, first_byte: usize, bytes: usize) -> io::Result<()> {
        if !self.is_file() {
            return Ok(());
        }
        let mut resident = vec![0u8; bytes.div_ceil(PAGE_BYTES)];
        let start = self.address(first_byte).cast_mut();
        // SAFETY: the range is mapped by this region (the words at both ends exist), and there is a byte for
        // each of its pages.
        done(unsafe { libc::mincore(start, bytes, resident.as_mut_ptr()) }.into()).map_err(not_mapped)?;
        for (page, _) in resident.iter().enumerate().filter(|(_, resident)| **resident & 1 == 1) {
            let word = (first_byte + page * PAGE_BYTES) / WORD_BYTES;
            std::hint::black_box(self.word(word).load(crate::sync::Ordering::Relaxed));
        }
        Ok(())
    }

    /// Returns the address of a byte at the beginning of a word.
    fn address(&self, byte: usize) -> *const libc::c_void {
        ptr::from_ref(self.word(byte / WORD_BYTES)).cast()
    }
}
