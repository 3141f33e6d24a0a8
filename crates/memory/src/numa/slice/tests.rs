//! Walks with a kernel of the test's own, and with the real one on the node that this machine has.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::numa::calls::not_mapped;
use crate::numa::{NodeSet, nodes_allowed, policy_of_thread, with_policy};
use crate::sync::Ordering::Relaxed;
use crate::{HUGE_PAGE_BYTES, Pages};

/// Pages with their nodes, and the error of each page that cannot move.
#[derive(Default)]
struct Fake {
    nodes: RefCell<BTreeMap<usize, u16>>,
    refused: BTreeMap<usize, i32>,
    /// The call fails as a whole.
    error: Option<i32>,
}

impl Calls for Fake {
    fn find(&self, pages: &[usize], nodes: &mut [i32]) -> io::Result<()> {
        let known = self.nodes.borrow();
        for (page, node) in pages.iter().zip(nodes) {
            *node = known.get(page).map_or(-libc::ENOENT, |node| i32::from(*node));
        }
        Ok(())
    }

    fn relocate(&self, pages: &[usize], nodes: &[i32], states: &mut [i32]) -> io::Result<()> {
        // A lack of room shows at a page, every other reason before the first one.
        let moves = match self.error {
            Some(libc::ENOMEM) => pages.len() - 1,
            Some(_) => 0,
            None => pages.len(),
        };
        for ((page, node), state) in pages.iter().zip(nodes).zip(states).take(moves) {
            *state = match self.refused.get(page) {
                Some(error) => -error,
                None => {
                    self.nodes.borrow_mut().insert(*page, *node as u16);
                    *node
                }
            };
        }
        self.error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
    }
}

fn page(number: usize) -> usize {
    number * PAGE_BYTES
}

/// Pages move to the wanted node, those that are there or absent do not count, each failure has its reason.
#[test]
fn each_page_is_counted_by_what_became_of_it() {
    let fake = Fake {
        nodes: RefCell::new(
            [(0, 1), (1, 0), (2, 0), (3, 0), (4, 0)].map(|(at, node)| (page(at), node)).into(),
        ),
        refused: [(2, libc::ENOMEM), (3, libc::EACCES), (4, libc::EBUSY)]
            .map(|(at, error)| (page(at), error))
            .into(),
        error: None,
    };
    let moved = walk(&fake, (0..8).map(page).collect(), &Policy::Prefer(1)).unwrap();
    assert_eq!(moved, Moved { in_place: 1, moved: 1, no_room: 1, shared: 1, busy: 1 });
    assert_eq!(moved.failed(), 3);
    assert_eq!(fake.nodes.borrow()[&page(1)], 1);
}

/// Pages on nodes outside of an interleaved set are spread over the set; others stay.
#[test]
fn pages_of_other_nodes_are_spread_over_the_set() {
    let nodes: BTreeMap<_, _> = (0..6).map(|at| (page(at), if at < 2 { 1 } else { 7 })).collect();
    let fake = Fake { nodes: RefCell::new(nodes), ..Fake::default() };
    let set: NodeSet = [0, 1].into_iter().collect();
    let moved = walk(&fake, (0..6).map(page).collect(), &Policy::Interleave(set)).unwrap();
    assert_eq!(moved, Moved { in_place: 2, moved: 4, ..Moved::default() });
    let of = |node| fake.nodes.borrow().values().filter(|it| **it == node).count();
    assert_eq!((of(0), of(1)), (2, 4));
}

#[test]
fn a_refused_call_is_an_error() {
    let nodes = RefCell::new([(page(0), 0)].into());
    let fake = Fake { nodes, error: Some(libc::EPERM), ..Fake::default() };
    let error = walk(&fake, vec![page(0)], &Policy::Prefer(1)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
}

/// The kernel fails the whole call where a node has no room: pages before the first one of that node have
/// moved, and a page of several processes keeps its own reason.
#[test]
fn a_full_node_is_no_error() {
    let nodes = [(0, 0), (1, 0), (2, 0)].map(|(at, node)| (page(at), node));
    let refused = [(1, libc::EACCES)].map(|(at, error)| (page(at), error)).into();
    let fake = Fake { nodes: RefCell::new(nodes.into()), refused, error: Some(libc::ENOMEM) };
    let moved = walk(&fake, (0..4).map(page).collect(), &Policy::Prefer(1)).unwrap();
    assert_eq!(moved, Moved { moved: 1, no_room: 1, shared: 1, ..Moved::default() });
}

/// The two calls mean different things by ENOMEM.
#[test]
fn a_page_that_is_not_mapped_is_not_called_a_lack_of_memory() {
    let error = not_mapped(io::Error::from_raw_os_error(libc::ENOMEM));
    assert_eq!(error.to_string(), "mincore: a page of the range is not mapped");
    let error = not_mapped(io::Error::from_raw_os_error(libc::EAGAIN));
    assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
}

/// Returns a node of this machine, and one that it does not have.
fn nodes_here() -> (u16, u16) {
    let allowed = nodes_allowed().unwrap();
    let here = allowed.iter().next().unwrap();
    (here, (0..1024).rev().find(|node| !allowed.contains(*node)).unwrap())
}

fn regions() -> Vec<(Region, Option<std::os::fd::OwnedFd>)> {
    let bytes = 2 * HUGE_PAGE_BYTES;
    let (readable, readers) = Region::readable(bytes).unwrap();
    vec![(Region::private(bytes).unwrap(), None), (readable, Some(readers))]
}

/// The real system calls take a policy, find pages on the machine's node, and keep their contents.
#[test]
fn pages_of_every_backing_are_found_and_keep_their_words() {
    let (here, _) = nodes_here();
    for (region, _readers) in regions() {
        for policy in [Policy::Prefer(here), Policy::Interleave([here].into_iter().collect())] {
            region.bind(Some(&policy)).unwrap();
            let words = region.words();
            for word in (0..words).step_by(PAGE_BYTES / WORD_BYTES) {
                region.word(word).store(word as u64 | 1, Relaxed);
            }
            let moved = region.move_by_policy(0, words * WORD_BYTES, &policy, false).unwrap();
            let pages = (words * WORD_BYTES / PAGE_BYTES) as u64;
            assert_eq!(moved, Moved { in_place: pages, ..Moved::default() }, "{:?}", region.pages());
            assert_eq!(
                region.nodes_of_samples(16).unwrap(),
                vec![here; if region.pages() == Pages::Hugetlb { 2 } else { 16 }]
            );
            for word in (0..words).step_by(PAGE_BYTES / WORD_BYTES) {
                assert_eq!(region.word(word).load(Relaxed), word as u64 | 1);
            }
        }
        region.bind(None).unwrap();
    }
}

/// A page that is not present is not made present, and counts nowhere.
#[test]
fn untouched_memory_stays_untouched() {
    let (here, _) = nodes_here();
    let region = Region::private(16 * PAGE_BYTES).unwrap();
    region.word(0).store(1, Relaxed);
    let moved = region.move_by_policy(0, 16 * PAGE_BYTES, &Policy::Prefer(here), false).unwrap();
    assert_eq!(moved.in_place, 1);
    assert_eq!(region.nodes_of_samples(16).unwrap(), [here]);
    let beyond = region.move_by_policy(16 * PAGE_BYTES, PAGE_BYTES, &Policy::Prefer(here), false).unwrap();
    assert_eq!(beyond, Moved::default());
}

/// A node that does not exist is the kernel's error, and the pages stay.
#[test]
fn a_missing_node_is_an_error() {
    let (here, missing) = nodes_here();
    for (region, _readers) in regions() {
        let policy = Policy::Prefer(missing);
        assert_eq!(region.bind(Some(&policy)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        region.word(0).store(1, Relaxed);
        let error = region.move_by_policy(0, PAGE_BYTES, &policy, false).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EACCES)), "{error}");
        assert_eq!(region.nodes_of_samples(1).unwrap(), [here]);
    }
}

/// Pages of a file that nobody has mapped are found without reading the disk.
#[test]
fn resident_pages_of_a_file_are_found() {
    let (here, _) = nodes_here();
    let folder = crate::folder::Folder::open(&std::env::temp_dir()).unwrap();
    let name = format!("micanite-numa-{}", std::process::id());
    let file = folder.create_new(&name, 0o600).unwrap();
    folder.remove(&name);
    let bytes = 64 * PAGE_BYTES;
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![7; bytes], 0).unwrap();
    let region = Region::file(&file, bytes).unwrap();
    let moved = region.move_by_policy(0, bytes, &Policy::Prefer(here), false).unwrap();
    assert_eq!(moved, Moved { in_place: 64, ..Moved::default() });
}

/// A thread has its policy for the time of the call, and the kernel's own afterwards.
#[test]
fn a_thread_gets_its_policy_back() {
    let (here, missing) = nodes_here();
    std::thread::spawn(move || {
        assert_eq!(policy_of_thread().unwrap(), None);
        let inside = with_policy(&Policy::Prefer(here), policy_of_thread);
        assert_eq!(inside.unwrap(), Some("preferred"));
        let set = [here].into_iter().collect();
        let inside = with_policy(&Policy::Interleave(set), policy_of_thread);
        assert_eq!(inside.unwrap(), Some("interleave"));
        assert_eq!(with_policy(&Policy::Prefer(missing), policy_of_thread).unwrap(), None);
        assert_eq!(policy_of_thread().unwrap(), None);
    })
    .join()
    .unwrap();
}
