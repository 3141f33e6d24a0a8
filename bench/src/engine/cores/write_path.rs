//! Compares two ways of a write to another core's partition: execute it here, under the partition's lock, or
//! hand it to the owner through a ring and wait for the reply.
//!
//! Two threads, each with pipelines of 32 requests on keys of both; a pipeline is done when all of its
//! requests are. Values are read and checked where the request is executed; over the ring only an
//! acknowledgement comes back, which is less than a server would need. The ring comes in two forms: with
//! threads that spin while they wait, which is the best it can be, and with threads that sleep and are woken
//! through an eventfd, as workers in epoll are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use micanite_engine::{Cache, Worker};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::{Done, SET, config_of, run_worker};
use crate::harness::popularity::{Popularity, Random};
use crate::harness::system;
use crate::results::measurement::Measurement;

const PIPELINE: usize = 32;
const ITEMS: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Lock,
    SpinningRing,
    SleepingRing,
}

pub(crate) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    for set_percent in [50, 100] {
        let case = format!("write path {set_percent} % SET, 2 threads");
        if !options.common.wants(&case) {
            continue;
        }
        if cpus.len() < 2 {
            report.note(format!("{case}: not measured, there is one CPU"));
            continue;
        }
        let count = if options.common.quick { 1 << 20 } else { 4 << 20 };
        let (mut lock, mut spinning, mut sleeping) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..options.common.rounds() {
            lock.push(measure(Way::Lock, set_percent, cpus, count)?);
            spinning.push(measure(Way::SpinningRing, set_percent, cpus, count)?);
            sleeping.push(measure(Way::SleepingRing, set_percent, cpus, count)?);
            eprint!("\r{case} round {}   ", round + 1);
        }
        eprintln!();
        let what = (case.as_str(), "partition lock", "M/s");
        report.beside(what, &lock, "ring, waiting threads spin", &spinning);
        report.beside(what, &lock, "ring, waiting threads sleep", &sleeping);
    }
    Ok(())
}

/// Million operations per second of both threads together.
fn measure(way: Way, set_percent: u64, cpus: &[usize], count: usize) -> Result<f64> {
    let lists = [1, 2].map(|seed| list(set_percent, count, seed));
    let threads = match way {
        Way::Lock => lock_threads()?,
        Way::SpinningRing => ring_threads(false)?,
        Way::SleepingRing => ring_threads(true)?,
    };
    let ready = &AtomicUsize::new(0);
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads = threads.into_iter().zip(&lists).zip(cpus);
        let handles: Vec<_> = threads
            .map(|((thread, list), cpu)| scope.spawn(move || thread.take_part(list, *cpu, ready)))
            .collect();
        handles.into_iter().map(|handle| handle.join()).collect()
    });
    let (mut elapsed, mut done) = (Duration::ZERO, Done::default());
    for result in results {
        let (own_elapsed, own_done) = result.map_err(|_| "a thread of the write path died")??;
        elapsed = elapsed.max(own_elapsed);
        done.add(own_done);
    }
    let gets = lists.iter().flatten().filter(|item| **item & SET == 0);
    if done.hits + done.misses + done.wrong != gets.count() as u64 {
        return Err("write path: a request was lost or executed twice".into());
    }
    done.check("write path")?;
    Ok(2.0 * count as f64 / elapsed.as_secs_f64() / 1e6)
}

fn list(set_percent: u64, count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed + 100);
    let mut list = Popularity::Uniform.draw(ITEMS, count, seed);
    list.iter_mut().for_each(|item| {
        if random.below(100) < set_percent {
            *item |= SET;
        }
    });
    list
}

struct Thread {
    worker: Worker,
    /// Counts of the requests that were executed here.
    done: Done,
    rings: Option<Rings>,
}

struct Rings {
    me: u32,
    ask: Producer<u32>,
    asked: Consumer<u32>,
    reply: Producer<u64>,
    replies: Consumer<u64>,
    /// This thread's bell and the other's, for threads that sleep.
    bells: Option<[Arc<Bell>; 2]>,
}

/// Wakes a thread that has gone to sleep.
struct Bell {
    sleeping: AtomicBool,
    event: EventFd,
}

/// One cache, used by both threads.
fn lock_threads() -> Result<[Thread; 2]> {
    let cache = Arc::new(Cache::new(&config_of::<8, 8>(2 * ITEMS, 2))?);
    let worker = |number| cache.worker(number).ok_or("no worker");
    let (mut first, second) = (worker(0)?, worker(1)?);
    fill(&mut first, |_| true);
    Ok([
        Thread { worker: first, done: Done::default(), rings: None },
        Thread { worker: second, done: Done::default(), rings: None },
    ])
}

/// A cache for each thread, which owns the items of its parity, and rings between them.
fn ring_threads(sleeping: bool) -> Result<[Thread; 2]> {
    let bell = || -> Result<Arc<Bell>> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?;
        Ok(Arc::new(Bell { sleeping: AtomicBool::new(false), event }))
    };
    let bells = [bell()?, bell()?];
    let (ask_0, asked_1) = RingBuffer::new(256);
    let (ask_1, asked_0) = RingBuffer::new(256);
    let (reply_0, replies_1) = RingBuffer::new(256);
    let (reply_1, replies_0) = RingBuffer::new(256);
    let owner = |me, ask, asked, reply, replies| -> Result<Thread> {
        let cache = Arc::new(Cache::new(&config_of::<8, 8>(ITEMS, 1))?);
        let mut worker = cache.worker(0).ok_or("no worker")?;
        fill(&mut worker, |item| item & 1 == me);
        let [first, second] = bells.clone();
        let pair = if me == 0 { [first, second] } else { [second, first] };
        let bells = sleeping.then_some(pair);
        Ok(Thread {
            worker,
            done: Done::default(),
            rings: Some(Rings { me, ask, asked, reply, replies, bells }),
        })
    };
    Ok([owner(0, ask_0, asked_0, reply_0, replies_0)?, owner(1, ask_1, asked_1, reply_1, replies_1)?])
}

fn fill(worker: &mut Worker, wanted: impl Fn(u32) -> bool) {
    let items: Vec<_> = (0..ITEMS as u32).filter(|item| wanted(*item)).map(|i| i | SET).collect();
    run_worker::<8, 8>(worker, &items);
}

impl Thread {
    /// Begins with the other, runs the list, and serves the other until it is done as well.
    fn take_part(
        mut self,
        list: &[u32],
        cpu: usize,
        ready: &AtomicUsize,
    ) -> std::result::Result<(Duration, Done), String> {
        // A thread that fails must not leave the other waiting.
        let pinned = system::pin(cpu).map_err(|error| format!("cannot pin to {cpu}: {error}"));
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < 2 {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        self.run(list);
        let elapsed = start.elapsed();
        ready.fetch_add(1, Ordering::AcqRel);
        self.wake_other();
        while ready.load(Ordering::Acquire) < 4 {
            self.serve();
            self.wait(|| ready.load(Ordering::Acquire) == 4);
        }
        pinned?;
        Ok((elapsed, self.done))
    }

    /// Executes requests here.
    fn execute(&mut self, operations: &[u32]) {
        self.done.add(run_worker::<8, 8>(&mut self.worker, operations));
    }

    fn run(&mut self, list: &[u32]) {
        for pipeline in list.chunks(PIPELINE) {
            match &self.rings {
                None => self.execute(pipeline),
                Some(rings) => {
                    let me = rings.me;
                    self.run_pipeline(pipeline, me);
                }
            }
        }
    }

    /// Asks the other for what it owns, does the rest, and waits for the replies, serving the
    /// other meanwhile.
    fn run_pipeline(&mut self, pipeline: &[u32], me: u32) {
        let mut mine = [0; PIPELINE];
        let (mut own, mut outstanding) = (0, 0);
        for operation in pipeline {
            if operation & 1 == me {
                mine[own] = *operation;
                own += 1;
            } else if let Some(rings) = &mut self.rings {
                while rings.ask.push(*operation).is_err() {
                    std::hint::spin_loop();
                }
                outstanding += 1;
            }
        }
        self.wake_other();
        self.execute(&mine[..own]);
        while outstanding > 0 {
            self.serve();
            self.wait(|| false);
            while let Some(Ok(value)) = self.rings.as_mut().map(|rings| rings.replies.pop()) {
                std::hint::black_box(value);
                outstanding -= 1;
            }
        }
    }

    /// Does what the other asks for.
    fn serve(&mut self) {
        let Some(rings) = &mut self.rings else { return };
        let mut asked = [0; PIPELINE];
        let mut count = 0;
        while count < PIPELINE
            && let Ok(operation) = rings.asked.pop()
        {
            asked[count] = operation;
            count += 1;
        }
        self.execute(&asked[..count]);
        let Some(rings) = &mut self.rings else { return };
        for operation in &asked[..count] {
            while rings.reply.push(u64::from(*operation)).is_err() {
                std::hint::spin_loop();
            }
        }
        if count > 0 {
            self.wake_other();
        }
    }

    /// Wakes the other if it sleeps.
    fn wake_other(&self) {
        if let Some([_, other]) = self.rings.as_ref().and_then(|rings| rings.bells.as_ref()) {
            fence(Ordering::SeqCst);
            if other.sleeping.load(Ordering::Relaxed) {
                let _ = other.event.write(1);
            }
        }
    }

    /// Sleeps until the other has something, if this is a thread that sleeps.
    fn wait(&self, ended: impl Fn() -> bool) {
        let Some(rings) = &self.rings else { return };
        let Some([own, _]) = &rings.bells else { return };
        own.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if rings.asked.is_empty() && rings.replies.is_empty() && !ended() {
            let _ = own.event.read();
        }
        own.sleeping.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_executes_every_request_once() {
        // Two threads that wait for each other by spinning need a CPU each.
        let cpus = micanite_control::cores::allowed();
        let cpus = [cpus[0], cpus[cpus.len() - 1]];
        let count = if cpus[0] == cpus[1] { 64 } else { 8192 };
        for way in [Way::Lock, Way::SpinningRing, Way::SleepingRing] {
            assert!(measure(way, 50, &cpus, count).unwrap() > 0.0);
        }
    }
}
