//! Requests of a thread: by laws, or as a pool does.

pub(crate) mod arrivals;
pub(crate) mod feed;
pub(crate) mod held_updates;

use std::collections::VecDeque;

use micanite_workload::{Next, PoolOperation, PoolOptions, PoolRequest, PoolStream, Requests, Workload};

use crate::plan::Plan;
use crate::requests::held_updates::HeldUpdates;

/// Requests that one of several keys may bring forward, at most: it is sent with fewer then.
const WAITING_MAX: usize = 4096;

/// Requests in flight of an open loop that is not behind.
const OPEN_IN_FLIGHT: usize = 256;

/// The requests of one thread, without end.
pub(crate) enum Stream {
    Laws(Requests),
    Pool(Box<PoolRequests>),
}

/// A pool's requests, those of several keys put together.
pub(crate) struct PoolRequests {
    stream: PoolStream,
    version: u32,
    /// Requests between GETs that share a request: sent behind it.
    waiting: VecDeque<PoolRequest>,
}

/// Requests that a thread may have in flight. An open loop seldom has as many as it might.
fn in_flight(plan: &Plan, threads: usize) -> u64 {
    let most = plan.connections.div_ceil(threads) * plan.pipeline;
    match plan.rate_ops {
        None => most as u64,
        Some(_) => most.min(OPEN_IN_FLIGHT) as u64,
    }
}

impl Stream {
    /// The requests of a thread of the plan.
    pub fn new(plan: &Plan, part: (usize, usize)) -> Self {
        match plan.workload.and_then(Workload::pool) {
            None => Self::Laws(
                Requests::new(plan.popularity, plan.items, plan.mix(), plan.seed, part)
                    .in_flight(in_flight(plan, part.1))
                    .drawing_ahead(plan.draw_ahead)
                    .reading_before_writing(plan.reads_before_writing),
            ),
            Some(pool) => {
                let options =
                    PoolOptions { part, mix: plan.mix_percent, ..PoolOptions::new(plan.items, plan.seed) };
                Self::Pool(Box::new(PoolRequests {
                    stream: PoolStream::new(pool, options),
                    version: (part.0 as u32) << 24,
                    waiting: VecDeque::new(),
                }))
            }
        }
    }

    /// The next request; the items that it reads go to `items`.
    #[inline]
    pub fn next(&mut self, items: &mut [u64], held_updates: &mut HeldUpdates) -> Next {
        match self {
            Self::Laws(laws) => laws.next(items),
            Self::Pool(requests) => requests.next(items, held_updates),
        }
    }

    /// The version of a value that is stored because it was missed.
    pub fn next_version(&mut self) -> u32 {
        match self {
            Self::Laws(laws) => laws.next_version(),
            Self::Pool(requests) => requests.next_version(),
        }
    }
}

impl PoolRequests {
    #[inline]
    fn next(&mut self, items: &mut [u64], held_updates: &mut HeldUpdates) -> Next {
        if let Some(item) = held_updates.take_due() {
            return Next::Write(item, self.next_version());
        }
        loop {
            let request = self.next_of_pool();
            let item = request.item.number;
            match request.operation {
                PoolOperation::Update if held_updates.hold(item) => {}
                PoolOperation::Update => return Next::Write(item, self.next_version()),
                PoolOperation::Delete => return Next::Delete(item),
                PoolOperation::Get => {
                    items[0] = item;
                    let read = 1 + self.collect(&mut items[1..]);
                    held_updates.read_sent(&items[..read]);
                    return Next::Read(read);
                }
            }
        }
    }

    #[inline]
    fn next_of_pool(&mut self) -> PoolRequest {
        let waiting = self.waiting.pop_front();
        let Some(request) = waiting.or_else(|| self.stream.next()) else {
            unreachable!("a pool's requests have no end");
        };
        request
    }

    /// The next GETs; what comes between them waits.
    fn collect(&mut self, items: &mut [u64]) -> usize {
        let mut collected = 0;
        while collected < items.len()
            && self.waiting.len() < WAITING_MAX
            && let Some(request) = self.stream.next()
        {
            if request.operation == PoolOperation::Get {
                items[collected] = request.item.number;
                collected += 1;
            } else {
                self.waiting.push_back(request);
            }
        }
        collected
    }

    fn next_version(&mut self) -> u32 {
        self.version = self.version.wrapping_add(1);
        self.version
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use micanite_workload::{Pool, Random};

    fn stream(workload: &str, mix_percent: Option<[f64; 3]>) -> Stream {
        let plan = Plan {
            workload: Some(workload.parse().unwrap()),
            items: 1000,
            mix_percent,
            ..Plan::new(Vec::new())
        };
        Stream::new(&plan, (0, 1))
    }

    /// Keys that are asked for together change nothing about how often what is asked for.
    #[test]
    fn requests_of_several_keys_keep_the_mix() {
        for keys in [1, 10] {
            let mut stream = stream("fb-etc", None);
            let mut items = vec![0; keys];
            let (mut gets, mut updates, mut deletes) = (0.0, 0.0, 0.0);
            let mut held_updates = HeldUpdates::default();
            while gets < 200_000.0 {
                match stream.next(&mut items, &mut held_updates) {
                    Next::Read(read) => {
                        assert_eq!(read, keys);
                        held_updates.read_ended(&items);
                        gets += keys as f64;
                    }
                    Next::Write(..) => updates += 1.0,
                    Next::Delete(_) => deletes += 1.0,
                }
            }
            let all = gets + updates + deletes;
            for (found, published) in [(gets, 0.736), (updates, 0.023), (deletes, 0.241)] {
                assert!((found / all - published).abs() < 0.003, "{keys}: {found}");
            }
        }
    }

    #[test]
    fn a_request_waits_for_few_others() {
        let mut stream = stream("fb-etc", Some([0.1, 99.9, 0.0]));
        let mut items = vec![0; 1000];
        let mut held_updates = HeldUpdates::default();
        let reads = (0..100_000).filter_map(|_| match stream.next(&mut items, &mut held_updates) {
            Next::Read(read) => Some(read),
            _ => None,
        });
        assert!(reads.take(3).all(|read| (1..20).contains(&read)));
        let Stream::Pool(requests) = stream else {
            panic!("it is one of a pool");
        };
        assert!(requests.waiting.len() <= WAITING_MAX);
    }

    /// However many requests are in flight and whichever of them is answered first: nothing is
    /// stored that a GET in flight is to miss, and all of it in the end.
    #[test]
    fn an_update_does_not_overtake_the_get_that_is_to_miss() {
        for (keys, in_flight_max) in [(1, 1), (1, 4), (1, 500), (3, 20)] {
            let mut stream = stream("fb-var", None);
            let (mut held_updates, mut items) = (HeldUpdates::default(), vec![0; keys]);
            let (mut in_flight, mut stored) = (VecDeque::new(), HashSet::new());
            let (mut gets, mut missed) = (0u32, HashSet::new());
            let mut random = Random::new(5);
            while gets < 25_000 {
                match stream.next(&mut items, &mut held_updates) {
                    Next::Read(read) => {
                        gets += read as u32;
                        let new = items.iter().filter(|item| !Pool::is_resident(**item));
                        missed.extend(new.copied());
                        in_flight.push_back(Some(items.clone()));
                    }
                    Next::Write(item, _) => {
                        let asked = in_flight.iter().flatten().flatten();
                        let overtakes = |asked: &u64| *asked == item && !Pool::is_resident(item);
                        assert!(!asked.clone().any(overtakes), "{item} in {in_flight:?}");
                        stored.insert(item);
                        in_flight.push_back(None);
                    }
                    Next::Delete(_) => unreachable!("VAR deletes nothing"),
                }
                if in_flight.len() == in_flight_max {
                    let any = random.below(in_flight.len() as u64) as usize;
                    let answered = in_flight.remove(any).flatten();
                    held_updates.read_ended(&answered.unwrap_or_default());
                }
            }
            let ratio = missed.len() as f64 / f64::from(gets);
            assert!((ratio - 0.063).abs() < 0.006, "{ratio}");
            let left = missed.difference(&stored).count();
            assert!(left <= missed.len() / 10 + in_flight_max, "{left}");
        }
    }
}
