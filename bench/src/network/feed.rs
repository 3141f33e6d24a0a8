//! Two workers on two cores, fed from memory with one stream of datagrams, each with what clients would
//! direct to it as the routes are at that moment. No client and no network take part, as with a network
//! card that delivers for nothing.
//!
//! A worker runs ahead of the other by [`AHEAD`] datagrams at most, as clients whose windows are full
//! would have it: the whole load goes on as fast as the worker with more to do.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use micanite_engine::{Access, Cache, Route, Worker};
use micanite_server::native::{Cookies, NativeShared, Round};
use micanite_server::session::Context;
use micanite_server::shared;
use micanite_server::telemetry::costs::RoundKind;
use micanite_wire::native::PAYLOAD_BYTES;
use micanite_workload::Values;

use super::direction::Memory;
use super::stream::{Stream, key};
use crate::Result;
use crate::harness::in_process::{self, NOW_S};
use crate::harness::system;

pub(super) const WORKERS: usize = 2;
/// Datagrams of a burst: as many as one call of the kernel brings.
const BURST: usize = 32;
const AHEAD: u64 = 1 << 12;
/// Mark in the place of a worker that has ended.
const ENDED: u64 = 1 << 63;
/// Place of the generation in a header.
const GENERATION_AT: usize = 8;
/// A tick of the server's coarse clock.
const TICK: Duration = Duration::from_millis(4);

/// Progress of a worker, on a line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Position(AtomicU64);

/// Directions of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direct {
    /// As clients do: to the owner, or to the workers in turn where any may execute them.
    ByMode,
    /// All to the owner.
    ToOwner,
    /// Reads to the worker that is not the owner.
    ReadsToOther,
    /// The same, while worker 1 does nothing: what it would get is left out.
    ReadsToOtherAlone,
    /// All to the owner, while worker 1 does nothing.
    ToOwnerAlone,
}

/// Counts of a run.
#[derive(Clone, Debug)]
pub(super) struct Fed {
    /// Requests of both workers per second.
    pub per_second: f64,
    pub elapsed_s: f64,
    /// Time of each worker's loop for a request that it has executed, without its waits for the other.
    pub request_ns: [f64; WORKERS],
    /// Requests per second within each of the intervals that were asked for.
    pub over_time: Vec<f64>,
}

/// Two workers' worth of a server, without sockets.
pub(super) struct Team {
    pub state: Arc<shared::Server>,
    /// Kept: a worker that is dropped gives its partitions to the others.
    workers: Vec<Mutex<Worker>>,
    cpus: [usize; WORKERS],
    cookie: u64,
    peer: SocketAddr,
}

impl Team {
    pub fn new(state: Arc<shared::Server>, cpus: [usize; WORKERS]) -> Result<Self> {
        let cache = &state.shared.cache;
        // Both threads run all the time, so none has to be woken.
        cache.set_waker(|_| {});
        let worker = |number| cache.worker(number).map(Mutex::new);
        let workers: Option<_> = (0..WORKERS).map(worker).collect();
        let native = state.shared.native.as_ref().ok_or("no native protocol")?;
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        let cookie = Cookies::new(native.cookie_key).check(peer, 0, NOW_S).renewal;
        Ok(Self { workers: workers.ok_or("a worker is in use")?, state, cpus, cookie, peer })
    }

    pub fn cache(&self) -> &Cache {
        &self.state.shared.cache
    }

    pub fn partitions(&self) -> usize {
        self.cache().layout().partitions
    }

    /// Gives every partition this mode and an owner.
    pub fn share(&self, access: Access, owner: impl Fn(usize) -> usize) -> Result<()> {
        for partition in 0..self.partitions() {
            self.state.set_route(partition, Route { access, owner: owner(partition) })?;
        }
        Ok(())
    }

    /// Stores the items with values of these lengths.
    pub fn fill(&self, items: u64, value_bytes: impl Fn(usize) -> usize + Copy) -> Result<()> {
        self.share(Access::Erew, |partition| partition % WORKERS)?;
        for worker in &self.workers {
            let mut worker = worker.lock().map_err(|_| "a worker has panicked")?;
            in_process::fill_with(self.cache(), &mut worker, items, value_bytes);
        }
        Ok(())
    }

    /// Partition of an item's key.
    pub fn partition_of(&self, item: u64) -> usize {
        self.cache().partition_of(self.cache().hash(&key(item)))
    }

    /// Makes datagrams of items and of whether they are stored, with values of these lengths.
    pub fn stream(
        &self,
        drawn: impl Iterator<Item = (u64, bool)>,
        value_bytes: impl Fn(usize) -> usize,
    ) -> Stream {
        let mut stream = Stream::default();
        let mut value = Vec::new();
        for (item, is_set) in drawn {
            let key = key(item);
            let hash = self.cache().hash(&key);
            let partition = self.cache().partition_of(hash);
            value.clear();
            if is_set {
                Values::new(value_bytes(partition)).push(item, 0, &mut value);
            }
            stream.push(self.cookie, (&key, hash), (partition, is_set), &value);
        }
        stream
    }

    /// Runs a stream for a while on both cores. `control` is called meanwhile, after each interval.
    pub fn run(
        &self,
        (stream, direct): (&Stream, Direct),
        duration: Duration,
        (interval, mut control): (Duration, impl FnMut() -> Result<()>),
    ) -> Result<Fed> {
        let (barrier, ended) = (Barrier::new(WORKERS + 1), AtomicBool::new(false));
        let positions = [const { Position(AtomicU64::new(0)) }; WORKERS];
        let place = || {
            let done = positions.each_ref().map(|position| position.0.load(Ordering::Relaxed));
            done.into_iter().min().unwrap_or(0)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..WORKERS)
                .map(|number| {
                    let mut feeder = Feeder { team: self, number, stream, direct, positions: &positions };
                    let (barrier, ended) = (&barrier, &ended);
                    scope.spawn(move || {
                        let pinned = system::pin(feeder.team.cpus[number]).is_ok();
                        let busy = feeder.run((duration, barrier, ended));
                        if pinned { busy } else { Err("a worker could not be pinned") }
                    })
                })
                .collect();
            barrier.wait();
            let (began, mut over_time, mut controlled) = (Instant::now(), Vec::new(), Ok(()));
            let (mut at, mut before) = (began, 0);
            while began.elapsed() + interval <= duration {
                std::thread::sleep(interval);
                let (now, done) = (Instant::now(), place());
                if done & ENDED != 0 {
                    break;
                }
                over_time.push((done - before) as f64 / now.duration_since(at).as_secs_f64());
                (at, before) = (now, done);
                controlled = controlled.and_then(|()| control());
            }
            let mut fed = Fed {
                per_second: 0.0,
                elapsed_s: duration.as_secs_f64(),
                request_ns: [0.0; WORKERS],
                over_time,
            };
            for (number, thread) in threads.into_iter().enumerate() {
                let busy = thread.join().map_err(|_| "a worker has panicked")??;
                fed.request_ns[number] = busy.request_ns;
                // Both have the whole stream behind them, but for what they may run ahead.
                fed.per_second = busy.rate.max(fed.per_second);
            }
            controlled.map(|()| fed)
        })
    }
}

/// Time of a worker.
struct Busy {
    /// Datagrams of the stream per second, the other worker's included.
    rate: f64,
    request_ns: f64,
}

/// A worker and the stream that comes to it.
struct Feeder<'a> {
    team: &'a Team,
    number: usize,
    stream: &'a Stream,
    direct: Direct,
    positions: &'a [Position; WORKERS],
}

impl Feeder<'_> {
    /// Returns how busy this worker was, or what went wrong.
    fn run(
        &mut self,
        (duration, barrier, ended): (Duration, &Barrier, &AtomicBool),
    ) -> std::result::Result<Busy, &'static str> {
        let state = &*self.team.state;
        let native = state.shared.native.as_ref();
        let (worker, number) = (self.team.workers[self.number].lock(), self.number);
        let ready = worker.ok().zip(native);
        let mut outbox = Memory::default();
        let mut burst = vec![0; BURST * PAYLOAD_BYTES];
        let mut ends = Vec::with_capacity(BURST);
        barrier.wait();
        let (mut worker, native) = ready.ok_or("a worker has panicked")?;
        let mut cookies = Cookies::new(native.cookie_key);
        let (began, mut at, mut executed) = (Instant::now(), 0, 0);
        let (mut waited, mut waits_since) = (Duration::ZERO, None);
        let (mut bursts, mut tick) = (0_u64, 0);
        while !ended.load(Ordering::Relaxed) {
            if bursts.is_multiple_of(64) || waits_since.is_some() {
                let elapsed = began.elapsed();
                tick = (elapsed.as_nanos() / TICK.as_nanos()) as u64;
                if elapsed >= duration {
                    ended.store(true, Ordering::Relaxed);
                }
            }
            at = self.gather(native, at, &mut burst, &mut ends);
            self.positions[number].0.store(at, Ordering::Relaxed);
            if ends.is_empty() {
                waits_since.get_or_insert_with(Instant::now);
                worker.serve();
                std::hint::spin_loop();
                continue;
            }
            if let Some(since) = waits_since.take() {
                waited += since.elapsed();
            }
            let timed = state.shared.costs.begin(number, RoundKind::Native, || tick);
            let context = Context::new(&mut worker, state, NOW_S);
            let mut round = Round::new(context, native, &mut cookies, &mut outbox, 0);
            let mut start = 0;
            for end in &ends {
                round.take(&burst[start..*end], self.team.peer.into(), false);
                start = *end;
            }
            round.finish();
            state.shared.costs.end(number, RoundKind::Native, timed);
            executed += ends.len() as u64;
            bursts += 1;
        }
        waited += waits_since.map_or(Duration::ZERO, |since| since.elapsed());
        let elapsed = began.elapsed();
        // A worker that leaves a batch of the other's waiting would hold it up.
        while !self.others_have_ended() {
            worker.serve();
        }
        let busy_ns = (elapsed - waited).as_nanos() as f64;
        Ok(Busy { rate: at as f64 / elapsed.as_secs_f64(), request_ns: busy_ns / executed.max(1) as f64 })
    }

    /// Tells both workers' ends to each other.
    fn others_have_ended(&self) -> bool {
        self.positions[self.number].0.fetch_or(ENDED, Ordering::AcqRel);
        self.positions.iter().all(|position| position.0.load(Ordering::Acquire) & ENDED != 0)
    }

    /// Copies the next datagrams for this worker into a burst, with the current generation. Returns the
    /// place behind them in the stream.
    fn gather(&self, native: &NativeShared, mut at: u64, burst: &mut [u8], ends: &mut Vec<usize>) -> u64 {
        let (cache, stream) = (self.team.cache(), self.stream);
        let generation = native.generation(cache).to_le_bytes();
        let other = &self.positions[1 - self.number];
        // A worker that has ended lets this one do no more than before.
        let limit = (other.0.load(Ordering::Relaxed) & !ENDED) + AHEAD;
        let count = stream.writes.len() as u64;
        ends.clear();
        let mut end = 0;
        while ends.len() < BURST && at < limit {
            let place = (at % count) as usize;
            at += 1;
            let partition = usize::from(stream.partitions[place]);
            if self.is_directed_here(cache.route(partition), stream.writes[place], at) {
                let datagram = stream.datagram(place);
                let begin = end;
                end += datagram.len();
                burst[begin..end].copy_from_slice(datagram);
                burst[begin + GENERATION_AT..][..generation.len()].copy_from_slice(&generation);
                ends.push(end);
            }
        }
        at
    }

    /// Says whether clients direct a request to this worker: by owner, or to the workers in turn.
    fn is_directed_here(&self, route: Option<Route>, writes: bool, turn: u64) -> bool {
        let Some(route) = route else {
            return false;
        };
        let is_own = route.owner == self.number;
        match self.direct {
            Direct::ToOwner => is_own,
            Direct::ReadsToOther => is_own == writes,
            Direct::ReadsToOtherAlone => self.number == 0 && is_own == writes,
            Direct::ToOwnerAlone => self.number == 0 && is_own,
            Direct::ByMode => match route.access {
                Access::Erew => is_own,
                Access::Crew if writes => is_own,
                Access::Crew | Access::Crcw => turn % WORKERS as u64 == self.number as u64,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every request is executed by the worker that its mode wants, and none by another one's delegation.
    #[test]
    fn requests_go_where_the_mode_wants_them() {
        const ITEMS: u64 = 1 << 10;
        let cpu = micanite_control::cores::allowed()[0];
        let state = in_process::server_of(WORKERS, "64m", "cache", Some(4)).unwrap();
        let team = Team::new(state, [cpu, cpu]).unwrap();
        team.fill(ITEMS, |_| 8).unwrap();
        let stream = team.stream((0..4 * ITEMS).map(|number| (number % ITEMS, number % 7 == 0)), |_| 8);
        for access in [Access::Erew, Access::Crew, Access::Crcw] {
            team.share(access, |partition| partition % WORKERS).unwrap();
            let counts = || {
                let of = |worker| (0..team.partitions()).map(move |partition| (worker, partition));
                let all = (0..WORKERS).flat_map(of);
                all.map(|(worker, partition)| team.cache().load(worker, partition)).collect::<Vec<_>>()
            };
            let (before, interval) = (counts(), Duration::from_millis(20));
            let fed = team.run((&stream, Direct::ByMode), 4 * interval, (interval, || Ok(()))).unwrap();
            assert!(fed.per_second > 0.0 && fed.request_ns.iter().all(|ns| *ns > 0.0), "{fed:?}");
            let executed: Vec<_> =
                counts().iter().zip(before).map(|(after, before)| after - before).collect();
            for (place, count) in executed.iter().enumerate() {
                let (worker, partition) = (place / team.partitions(), place % team.partitions());
                let is_own = partition % WORKERS == worker;
                assert_eq!(*count > 0, is_own || access != Access::Erew, "{access:?}: {executed:?}");
            }
        }
    }
}
