//! Machines of several nodes that this one is not, moves with a memory of the test's own, and the real system
//! calls on the node that there is.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use micanite_control::Numa;
use micanite_control::nodes::Nodes;
use micanite_engine::{Access, Cache, Config, Route, WorkerNodes};
use micanite_memory::numa::{Moved, NodeSet, Policy, nodes_allowed};
use nix::errno::Errno;

use super::migrate::{End, Memory, Pace, migrate};
use super::places::{Job, Places};
use super::{Follow, Found, NumaState, State};
use crate::limits::{NUMA_BYTES_PER_SECOND, NUMA_SLICE_BYTES};

const SLICES: usize = 8;
const SLICE_PAGES: u64 = (NUMA_SLICE_BYTES / 4096) as u64;

fn two_nodes() -> Nodes {
    [(0, vec![0, 2]), (1, vec![1, 3])].into_iter().collect()
}

fn found(choice: Numa, cpus: &[usize], policy: Option<&'static str>, allowed: &[u16]) -> Found {
    Found::of(choice, &two_nodes(), cpus, || Ok(policy), || Ok(allowed.iter().copied().collect()))
}

fn reason(found: &Found) -> &str {
    match found {
        Found::Unbound { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// One node, or none that the kernel tells of, makes no system call.
#[test]
fn a_machine_of_one_node_is_asked_nothing() {
    for nodes in [Nodes::default(), [(0, vec![0, 1])].into_iter().collect()] {
        let found = Found::of(Numa::Bind, &nodes, &[0, 1], || panic!("asked"), || panic!("asked"));
        assert_eq!(found, Found::One);
    }
}

#[test]
fn workers_have_the_nodes_of_their_cpus() {
    let bound = found(Numa::Bind, &[0, 1, 2], None, &[0, 1]);
    let nodes = WorkerNodes::new(vec![Some(0), Some(1), Some(0)]);
    assert_eq!(bound, Found::Bound { nodes: 2, workers: Arc::new(nodes) });
    // A cpuset of fewer nodes: the workers of the other one have none.
    let narrow = found(Numa::Bind, &[0, 1], None, &[1]);
    assert_eq!(*narrow.workers().unwrap(), WorkerNodes::new(vec![None, Some(1)]));
}

#[test]
fn nothing_is_bound_where_somebody_else_decides() {
    assert_eq!(reason(&found(Numa::Off, &[0, 1], None, &[0, 1])), "--numa off");
    assert!(reason(&found(Numa::Bind, &[0], Some("interleave"), &[0, 1])).contains("(interleave; numactl?)"));
    assert!(reason(&found(Numa::Bind, &[0], None, &[1])).contains("memory of nodes 1 only"));
    let refused = || Err(io::Error::from(Errno::EPERM));
    let found = Found::of(Numa::Bind, &two_nodes(), &[0], refused, || panic!("asked"));
    assert!(
        matches!(&found, Found::Unbound { nodes: 2, is_refused: true, reason } if reason.contains("SYS_NICE"))
    );
}

/// A partition of eight slices, with an answer for each visit.
struct Fake<F> {
    slice: F,
    visits: Cell<usize>,
    bound: RefCell<Vec<Option<Policy>>>,
    refuses_to_bind: bool,
}

impl<F: Fn(usize) -> io::Result<Moved>> Fake<F> {
    fn new(slice: F) -> Self {
        Self { slice, visits: Cell::new(0), bound: RefCell::default(), refuses_to_bind: false }
    }
}

impl<F: Fn(usize) -> io::Result<Moved>> Memory for Fake<F> {
    fn bytes(&self) -> usize {
        SLICES * NUMA_SLICE_BYTES
    }

    fn bind(&self, _: usize, policy: Option<&Policy>) -> io::Result<()> {
        self.bound.borrow_mut().push(policy.copied());
        if self.refuses_to_bind { Err(Errno::EPERM.into()) } else { Ok(()) }
    }

    fn move_slice(&self, _: usize, first_byte: usize, _: &Policy) -> io::Result<Moved> {
        let visit = self.visits.replace(self.visits.get() + 1);
        assert_eq!(first_byte, visit % SLICES * NUMA_SLICE_BYTES);
        (self.slice)(visit)
    }
}

/// Goes on for so many slices, and adds up the pauses.
struct Counting {
    slices: usize,
    paused: Duration,
}

impl Pace for Counting {
    fn go_on(&mut self, percent: u64, pause: Duration) -> bool {
        assert!(percent < 100);
        self.paused += pause;
        self.slices -= 1;
        self.slices > 0
    }
}

fn moved(pages: u64) -> Moved {
    Moved { moved: pages, ..Moved::default() }
}

fn job(policy: Option<Policy>) -> Job {
    let mut places = Places::new([None].into_iter());
    if !places.want(0, policy) {
        places.enqueue(0);
    }
    places.next().unwrap()
}

fn run(memory: &impl Memory, slices: usize) -> (End, Duration) {
    let mut pace = Counting { slices, paused: Duration::ZERO };
    let end = migrate(memory, &job(Some(Policy::Prefer(1))), &mut pace);
    (end, pace.paused)
}

/// New pages go to the new node at once, the old ones follow, and pauses keep the limit.
#[test]
fn all_slices_move_within_the_limit() {
    let memory = Fake::new(|_| Ok(moved(SLICE_PAGES)));
    let (end, paused) = run(&memory, usize::MAX);
    assert_eq!(end, End::Done(State::Moved, SLICES as u64 * SLICE_PAGES));
    assert_eq!(*memory.bound.borrow(), [Some(Policy::Prefer(1))]);
    let least = Duration::from_secs_f64((SLICES * NUMA_SLICE_BYTES) as f64 / NUMA_BYTES_PER_SECOND as f64);
    assert!(paused >= least.mul_f64(0.999), "{paused:?} of {least:?}");
}

/// Slices without anything to move are passed without a pause.
#[test]
fn memory_that_is_in_place_is_only_looked_at() {
    let memory = Fake::new(|_| Ok(Moved { in_place: SLICE_PAGES, ..Moved::default() }));
    assert_eq!(run(&memory, usize::MAX), (End::Done(State::Moved, 0), Duration::ZERO));
}

#[test]
fn a_move_that_is_not_wanted_any_more_ends_after_its_slice() {
    let memory = Fake::new(|_| Ok(moved(1)));
    assert_eq!(run(&memory, 3).0, End::Cancelled(3));
    assert_eq!(memory.visits.get(), 3);
}

/// Pages that somebody was using are tried again, and those that stay are counted once.
#[test]
fn busy_pages_are_tried_again() {
    let memory = Fake::new(|visit| {
        Ok(Moved { busy: u64::from(visit == 2 || visit == 10), ..moved(u64::from(visit == 10)) })
    });
    assert_eq!(run(&memory, usize::MAX).0, End::Done(State::Moved, 1));
    assert_eq!(memory.visits.get(), 3 * SLICES);
    let memory = Fake::new(|_| Ok(Moved { busy: 1, ..Moved::default() }));
    let reason = "the kernel could not move them".to_owned();
    assert_eq!(run(&memory, usize::MAX).0, End::Done(State::Partly(SLICES as u64, reason), 0));
}

/// A node without room, or a call that is refused, ends the move with the reason.
#[test]
fn a_move_gives_up_clearly() {
    let memory = Fake::new(|visit| Ok(if visit < 2 { moved(5) } else { Moved { no_room: 7, ..moved(0) } }));
    let reason = "given up: node 1 has no room".to_owned();
    assert_eq!(run(&memory, usize::MAX).0, End::Done(State::Partly(7, reason), 10));
    for (errno, words) in
        [(Errno::EPERM, "the kernel refuses move_pages"), (Errno::ENODEV, "move_pages: No such device")]
    {
        let memory = Fake::new(|_| Err(errno.into()));
        match run(&memory, usize::MAX).0 {
            End::Done(State::Stays(reason), 0) => assert!(reason.contains(words), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    let memory = Fake { refuses_to_bind: true, ..Fake::new(|_| panic!("moved")) };
    assert!(
        matches!(run(&memory, usize::MAX).0, End::Done(State::Stays(reason), 0) if reason.contains("mbind"))
    );
}

#[test]
fn pages_of_readers_stay_with_a_remedy() {
    let memory = Fake::new(|_| Ok(Moved { shared: 2, ..moved(3) }));
    match run(&memory, usize::MAX).0 {
        End::Done(State::Partly(16, reason), 24) => assert!(reason.contains("CAP_SYS_NICE"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// A partition whose owner has no node goes back to the kernel's own policy.
#[test]
fn an_owner_without_a_node_lets_the_memory_stay() {
    let memory = Fake::new(|_| panic!("moved"));
    let mut pace = Counting { slices: 1, paused: Duration::ZERO };
    let end = migrate(&memory, &job(None), &mut pace);
    assert!(matches!(end, End::Done(State::Stays(_), 0)));
    assert_eq!(*memory.bound.borrow(), [None]);
}

/// Two workers in EREW, one on this machine's node and one on a node that the machine does not have.
fn state() -> (Arc<Cache>, NumaState, u16, u16) {
    let allowed: NodeSet = nodes_allowed().unwrap();
    let here = allowed.iter().next().unwrap();
    let missing = (0..1024).rev().find(|node| !allowed.contains(*node)).unwrap();
    let workers = Arc::new(WorkerNodes::new(vec![Some(here), Some(missing)]));
    let found = Found::Bound { nodes: 2, workers };
    let config = Config { workers: 2, access: Access::Erew, nodes: found.workers(), ..Config::default() };
    let cache = Arc::new(Cache::new(&config).unwrap());
    let state = NumaState::new(&found, &cache);
    (cache, state, here, missing)
}

fn owned_by(owner: usize) -> Route {
    Route { access: Access::Erew, owner }
}

/// The real calls: what can be bound is, what cannot has its reason, and a move to a missing node stays.
#[test]
fn a_partition_that_cannot_move_says_so() {
    let (cache, state, _, missing) = state();
    assert!(state.is_active());
    assert!(
        state.warning().unwrap().starts_with("1 of 2 partitions are not bound to their NUMA node: mbind")
    );
    assert_eq!(state.places()[0].state, State::Bound);
    assert!(matches!(&state.places()[1].state, State::Stays(reason) if reason.contains("Invalid argument")));
    assert_eq!(state.follow(0, owned_by(0), owned_by(0)), Follow::Nothing);
    let follow = state.follow(0, owned_by(0), owned_by(1));
    assert_eq!(follow, Follow::Moves(Policy::Prefer(missing)));
    assert!(follow.text(0).contains("in the background"));
    let job = state.next().unwrap();
    let end = migrate(&*cache, &job, &mut Counting { slices: usize::MAX, paused: Duration::ZERO });
    state.note(&job, &end);
    assert!(matches!(&state.places()[0].state, State::Stays(reason) if reason.contains("mbind")));
    assert!(state.report(&cache).contains("stays: mbind: Invalid argument"), "{}", state.report(&cache));
}

/// The real calls: a partition that comes back to this machine's node is found there, and counted as done.
#[test]
fn a_partition_that_comes_back_is_in_place() {
    let (cache, state, here, _) = state();
    assert_eq!(state.follow(1, owned_by(1), owned_by(0)), Follow::Moves(Policy::Prefer(here)));
    let job = state.next().unwrap();
    let end = migrate(&*cache, &job, &mut Counting { slices: usize::MAX, paused: Duration::ZERO });
    assert_eq!(end, End::Done(State::Moved, 0));
    state.note(&job, &end);
    assert_eq!(state.places()[1].state, State::Moved);
    let mut counts = Vec::new();
    state.each_count(|name, count| counts.push((name, count)));
    assert_eq!(counts[..2], [("moves_begun", 1), ("moves_done", 1)]);
}

/// A wait between two slices ends when the partition gets yet another owner, whose task is done instead.
#[test]
fn a_newer_move_cancels_a_pause() {
    let (_, state, here, _) = state();
    state.follow(0, owned_by(0), owned_by(1));
    let job = state.next().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| state.go_on(&job, 50, Duration::from_secs(3600)));
        state.follow(0, owned_by(1), owned_by(0));
        assert!(!waiting.join().unwrap());
    });
    state.note(&job, &End::Cancelled(12));
    let newer = state.next().unwrap();
    assert_eq!(newer.policy, Some(Policy::Prefer(here)));
    // What the older one would say is not heard any more.
    state.note(&job, &End::Done(State::Moved, 0));
    assert_eq!(state.places()[0].state, State::Moving(0));
}

/// The end of the server wakes the thread, while it waits for a task and while it pauses.
#[test]
fn the_end_wakes_the_thread() {
    let (_, state, ..) = state();
    state.follow(0, owned_by(0), owned_by(1));
    let job = state.next().unwrap();
    std::thread::scope(|scope| {
        let pausing = scope.spawn(|| state.go_on(&job, 0, Duration::from_secs(3600)));
        let waiting = scope.spawn(|| state.next());
        state.end();
        assert!(!pausing.join().unwrap());
        assert_eq!(waiting.join().unwrap(), None);
    });
}

/// Several moves of a partition before its turn are one task, to the last node.
#[test]
fn a_partition_is_queued_once() {
    let mut places = Places::new([Some(Policy::Prefer(0)), Some(Policy::Prefer(0))].into_iter());
    assert!(places.want(1, Some(Policy::Prefer(1))));
    assert!(places.want(1, Some(Policy::Prefer(2))));
    assert!(!places.want(1, Some(Policy::Prefer(2))));
    assert!(!places.want(9, None));
    assert_eq!(places.next().unwrap().policy, Some(Policy::Prefer(2)));
    assert_eq!(places.next(), None);
}

/// One node: a move of a partition says nothing, as before.
#[test]
fn one_node_says_nothing() {
    let cache = Cache::new(&Config { workers: 2, ..Config::default() }).unwrap();
    let state = NumaState::new(&Found::One, &cache);
    assert_eq!(state.follow(0, owned_by(0), owned_by(1)), Follow::Nothing);
    assert_eq!((state.line(), state.warning(), state.is_active()), (None, None, false));
    let found = Found::Unbound { nodes: 2, reason: "--numa off".into(), is_refused: false };
    let state = NumaState::new(&found, &cache);
    assert_eq!(state.follow(0, owned_by(0), owned_by(1)), Follow::Stays("--numa off".into()));
    assert!(state.line().is_some() && state.warning().is_none());
}
