//! Threads, one on each of some cores, with the workers of one cache: two of them, or any number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use micanite_engine::{Cache, Config, Route, Worker};

use crate::Result;
use crate::engine::contenders::{Done, SET, bytes, run_worker};
use crate::harness::popularity::{Popularity, Random};
use crate::harness::system;

/// Operations between two looks at the clock.
const STEP: usize = 4096;

/// A cache with two workers.
pub(crate) struct Pair {
    pub cache: Arc<Cache>,
    pub workers: [Worker; 2],
    cpus: [usize; 2],
}

impl Pair {
    /// `config` for two workers.
    pub fn new(config: &Config, cpus: [usize; 2]) -> Result<Self> {
        let cache = Arc::new(Cache::new(config)?);
        let worker = |number| cache.worker(number).ok_or("no worker");
        let workers = [worker(0)?, worker(1)?];
        // Both threads run all the time, so none has to be woken.
        cache.set_waker(|_| {});
        Ok(Self { cache, workers, cpus })
    }

    /// The same for every partition, or not.
    pub fn set_routes(&self, of: impl Fn(usize) -> Route) -> Result<()> {
        for partition in 0..self.cache.layout().partitions {
            let route = of(partition);
            let set = self.cache.set_route(partition, route);
            set.map_err(|error| format!("cannot set a route: {error:?}"))?;
        }
        Ok(())
    }

    /// Stores items `0..items`, by the first worker.
    pub fn fill<const K: usize, const V: usize>(&mut self, items: u64) {
        let all: Vec<_> = (0..items as u32).map(|item| item | SET).collect();
        run_worker::<K, V>(&mut self.workers[0], &all);
    }

    /// `count` operations on items whose partition is `wanted`.
    pub fn draw<const K: usize>(&self, wanted: impl Fn(usize) -> bool, of: &Draw) -> Vec<u32> {
        let (mut list, mut random) = (Vec::new(), Random::new(of.seed + 100));
        for seed in 1.. {
            let seed = of.seed * 1000 + seed;
            for item in of.popularity.draw(of.items, of.count, seed) {
                let hash = self.cache.hash(&bytes::<K>(item));
                if wanted(self.cache.partition_of(hash)) {
                    let set = random.below(100) >= of.get_percent;
                    list.push(if set { item | SET } else { item });
                }
            }
            if list.len() >= of.count {
                break;
            }
        }
        list.truncate(of.count);
        list
    }

    /// Both threads go through their lists, again and again, for a while; a thread whose list is
    /// empty is not started. `beside` runs on the calling thread, and learns when they have ended.
    /// The rates of the two, in million operations per second.
    pub fn run<const K: usize, const V: usize>(
        &mut self,
        lists: [&[u32]; 2],
        span: Span,
        beside: impl FnOnce(&AtomicBool) -> Result<()>,
    ) -> Result<[f64; 2]> {
        let lists = lists.as_slice();
        let rates = run_members::<K, V>(&mut self.workers, lists, &self.cpus, span, beside)?;
        Ok([rates[0], rates[1]])
    }
}

/// Each worker goes through its list on its core, as [`Pair::run`] says.
pub(crate) fn run_members<const K: usize, const V: usize>(
    workers: &mut [Worker],
    lists: &[&[u32]],
    cpus: &[usize],
    span: Span,
    beside: impl FnOnce(&AtomicBool) -> Result<()>,
) -> Result<Vec<f64>> {
    let members = lists.iter().filter(|list| !list.is_empty()).count();
    let (ready, ended) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
    let (over, beside_over) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let (results, beside) = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for ((worker, list), cpu) in workers.iter_mut().zip(lists).zip(cpus) {
            let member = move || {
                let pinned = system::pin(*cpu).map_err(|error| error.to_string());
                meet(ready, members);
                let ran = run_for::<K, V>(worker, list, span, beside_over);
                ended.fetch_add(1, Ordering::AcqRel);
                // The other may still ask for something.
                while ended.load(Ordering::Acquire) < members {
                    worker.serve();
                }
                over.store(true, Ordering::Release);
                pinned.map(|()| ran)
            };
            handles.push((!list.is_empty()).then(|| scope.spawn(member)));
        }
        let beside = beside(over);
        beside_over.store(true, Ordering::Release);
        let results: Vec<_> = handles.into_iter().map(|handle| handle.map(|handle| handle.join())).collect();
        (results, beside)
    });
    beside?;
    let mut rates = vec![0.0; results.len()];
    for (rate, result) in rates.iter_mut().zip(results) {
        if let Some(ran) = result {
            let (own, done) = ran.map_err(|_| "a thread of the benchmark died")??;
            done.check("two threads")?;
            *rate = own;
        }
    }
    Ok(rates)
}

#[derive(Clone, Copy)]
pub(crate) enum Span {
    For(Duration),
    /// Ends with the task beside them.
    WhileBeside,
}

/// Input of [`Pair::draw`].
pub(crate) struct Draw {
    pub popularity: Popularity,
    pub items: u64,
    pub get_percent: u64,
    pub count: usize,
    pub seed: u64,
}

/// Waits until all are there.
pub(crate) fn meet(ready: &AtomicUsize, members: usize) {
    ready.fetch_add(1, Ordering::AcqRel);
    while ready.load(Ordering::Acquire) < members {
        std::hint::spin_loop();
    }
}

/// Runs nothing beside the threads.
pub(crate) fn alone(_: &AtomicBool) -> Result<()> {
    Ok(())
}

fn run_for<const K: usize, const V: usize>(
    worker: &mut Worker,
    list: &[u32],
    span: Span,
    beside_over: &AtomicBool,
) -> (f64, Done) {
    let (start, mut operations, mut done) = (Instant::now(), 0, Done::default());
    for step in list.chunks(STEP).cycle() {
        done.add(run_worker::<K, V>(worker, step));
        operations += step.len();
        let over = match span {
            Span::For(span) => start.elapsed() >= span,
            Span::WhileBeside => beside_over.load(Ordering::Acquire),
        };
        if over {
            break;
        }
    }
    let rate = operations as f64 / start.elapsed().as_secs_f64() / 1e6;
    (rate, done)
}
