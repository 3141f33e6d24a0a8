//! Traces through caches, and samples.

use micanite_engine::Eviction;

use super::*;
use crate::trace::{Key, Operation, Outcome, Reader, Request};

/// Requests that were made here.
struct Made {
    requests: Vec<Request<'static>>,
    next: usize,
}

impl Reader for Made {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        self.next += 1;
        Ok(self.requests.get(self.next - 1).copied())
    }
}

fn request(time_s: u64, operation: Operation, number: u64, bytes: u32) -> Request<'static> {
    Request {
        time_ms: time_s * 1000,
        key: Key::Number(number),
        operation,
        key_bytes: 0,
        value_bytes: Some(bytes),
        expiry_s: None,
        outcome: Outcome::Unknown,
    }
}

fn compact(requests: Vec<Request<'static>>, bounds: Bounds) -> Compact {
    let mut made = Made { requests, next: 0 };
    Compact::read(&mut made, bounds, |_| ()).expect("nothing can go wrong")
}

fn misses(trace: &Compact, policy: Policy, bytes: u64, accounting: Accounting) -> u64 {
    let rules = Rules { accounting, ..Rules::default() };
    let simulation = Simulation::new(trace, rules, &[policy]);
    let ratios = simulation.run(&[Case { policy, bytes }], |_| ());
    ratios.expect("simulated")[0].counts.misses
}

/// Requests by a law with a long tail, of objects whose sizes differ.
fn skewed(requests: u64) -> Vec<Request<'static>> {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let one = |at| {
        let number = (100_000f64.powf(random()) * (1.0 + random())) as u64;
        let bytes = 20 + (number.wrapping_mul(0x9e37_79b9) >> 7) % 400;
        request(at / 100, Operation::Get, number, bytes as u32)
    };
    (0..requests).map(one).collect()
}

#[test]
fn writes_deletes_and_expiries_follow_the_trace() {
    let with_expiry = |request: Request<'static>, expiry_s| Request { expiry_s: Some(expiry_s), ..request };
    use Operation::{Add, Delete, Get, GetAndTouch, Replace, Set, Touch};
    let requests = vec![
        request(0, Get, 1, 50),                          // miss
        request(0, Get, 1, 50),                          // hit
        with_expiry(request(1, Set, 2, 60), 10),         //
        request(2, Get, 2, 60),                          // hit
        request(12, Get, 2, 60),                         // miss: expired; stored for 10 s again
        request(13, Delete, 1, 0),                       //
        request(13, Get, 1, 50),                         // miss
        with_expiry(request(14, Replace, 3, 40), 0),     // it is not there
        request(14, Get, 3, 40),                         // miss
        with_expiry(request(15, Delete, 4, 0), 0),       //
        with_expiry(request(15, Add, 4, 30), 5),         //
        with_expiry(request(16, Touch, 4, 30), 20),      //
        request(30, Get, 4, 30),                         // hit
        with_expiry(request(31, GetAndTouch, 4, 30), 1), // hit
        request(33, Get, 4, 30),                         // miss
    ];
    let trace = compact(requests, Bounds::default());
    assert_eq!((trace.requests, trace.reads, trace.objects()), (15, 9, 4));
    for policy in Policy::all() {
        for accounting in [Accounting::Real, Accounting::Payload] {
            let missed = misses(&trace, policy, 2 << 20, accounting);
            assert_eq!(missed, 5, "{policy} {accounting:?}");
        }
    }
}

/// Counters and lengthened values expire when they would have, whatever another request said.
#[test]
fn requests_without_expiry_keep_none_of_another() {
    let with_expiry = |request: Request<'static>, expiry_s| Request { expiry_s: Some(expiry_s), ..request };
    use Operation::{Append, Get, Increment, Set};
    let requests = vec![
        with_expiry(request(0, Set, 1, 50), 100),   //
        with_expiry(request(0, Set, 2, 50), 0),     //
        with_expiry(request(1, Set, 3, 50), 5),     //
        request(2, Increment, 1, 50),               //
        request(2, Increment, 2, 50),               //
        with_expiry(request(2, Append, 3, 60), 50), //
        request(4, Increment, 3, 50),               //
        request(5, Get, 3, 50),                     // hit
        request(6, Get, 3, 50),                     // miss: it has expired; stored for 5 s
        request(50, Get, 1, 50),                    // hit
        request(50, Get, 2, 50),                    // hit
        request(100, Get, 1, 50),                   // miss
        request(1000, Get, 2, 50),                  // hit
    ];
    let trace = compact(requests, Bounds::default());
    for policy in Policy::all() {
        let missed = misses(&trace, policy, 2 << 20, Accounting::Real);
        assert_eq!(missed, 2, "{policy}");
    }
}

/// Requests that differ in when and how long, so that there is a mark before each.
fn marked(requests: u64) -> Vec<Request<'static>> {
    let one =
        |at: u64| Request { expiry_s: Some(at as u32 % 7), ..request(at, Operation::Set, at % 5_000, 40) };
    let read = |at: u64| request(at, Operation::Get, at % 5_000, 40);
    (0..requests).flat_map(|at| [one(at), read(at)]).collect()
}

/// A thinned trace keeps requests, not the times and expiries of those that are gone.
#[test]
fn marks_leave_with_their_requests() {
    let bounds = Bounds { bytes_max: 400_000, ..Bounds::default() };
    let trace = compact(marked(100_000), bounds);
    let requests = trace.events.iter().filter(|event| event.kind() != event::Kind::Mark);
    let (requests, all) = (requests.count(), trace.events.len());
    assert!(requests * 3 >= all, "{requests} of {all}");
    assert!(trace.fraction >= 0.05, "{}", trace.fraction);
    // Times and expiries are those that they were.
    let whole = compact(marked(100_000), Bounds::default());
    let ratio = |trace: &Compact| {
        let simulation = Simulation::new(trace, Rules::default(), &[Policy::Lru]);
        let case = Case { policy: Policy::Lru, bytes: 1 << 30 };
        simulation.run(&[case], |_| ()).expect("simulated")[0].objects
    };
    let (whole, thinned) = (ratio(&whole), ratio(&trace));
    assert!((whole - thinned).abs() < 0.02, "{whole} {thinned}");
}

#[test]
fn payload_never_exceeds_the_capacity_and_comes_near_to_it() {
    let trace = compact(skewed(60_000), Bounds::default());
    for (grain, capacity) in [(1, 100_000), (4, 100_000), (1, 400_000)] {
        for eviction in Eviction::ALL {
            let frame = Frame::Payload { grain };
            let mut engine = EngineCache::new(eviction, capacity, frame, 500).expect("a cache");
            let mut most = 0;
            let mut there = std::collections::HashMap::new();
            for event in &trace.events {
                if event.kind() == event::Kind::Mark {
                    continue;
                }
                let (number, bytes) = (u64::from(event.object()), event.payload_bytes());
                if !engine.get(number, 0) {
                    assert!(engine.set(number, 0, u64::from(bytes), 0));
                    there.insert(number, u64::from(bytes));
                }
                most = most.max(engine.used_bytes());
                assert!(most <= capacity, "{eviction:?}: {most} of {capacity}");
            }
            // Else a read moves no item, so it only shows what is there.
            if eviction != Eviction::ApproximateLru {
                let used = engine.used_bytes();
                there.retain(|number, _| engine.get(*number, 0));
                let exact = there.values().sum::<u64>();
                let off = used.abs_diff(exact) as f64 / exact as f64;
                let most_off = if grain == 1 { 1e-9 } else { 0.02 };
                assert!(off <= most_off, "{eviction:?}: {used} for {exact}");
            }
            assert!(most * 100 > capacity * 93, "{eviction:?}: {most} of {capacity}");
        }
    }
}

#[test]
fn a_sample_misses_as_often_as_all() {
    let requests = skewed(600_000);
    let all = compact(requests.clone(), Bounds::default());
    let sampled = Bounds { fraction: 0.1, ..Bounds::default() };
    let sample = compact(requests, sampled);
    let share = sample.objects() as f64 / all.objects() as f64;
    assert!((share - 0.1).abs() < 0.01, "{share}");
    let footprint = sample.footprint_bytes() as f64 / all.footprint_bytes() as f64;
    assert!((footprint - 1.0).abs() < 0.1, "{footprint}");
    let policies = [Policy::usual()[0], Policy::Lru];
    let cases: Vec<_> = policies
        .iter()
        .flat_map(|&policy| [1_000_000, 3_000_000, 10_000_000].map(|bytes| Case { policy, bytes }))
        .collect();
    let ratios = |trace: &Compact| {
        let simulation = Simulation::new(trace, Rules::default(), &policies);
        simulation.run(&cases, |_| ()).expect("simulated")
    };
    for (of_all, of_sample) in ratios(&all).iter().zip(ratios(&sample)) {
        let (all, sample) = (of_all.objects, of_sample.objects);
        let case = of_all.case;
        assert!((all - sample).abs() < 0.02, "{case:?}: {all}, sample {sample}");
        assert!((of_all.bytes - of_sample.bytes).abs() < 0.02, "{case:?}");
    }
}

/// Users of memcached choose `--eviction lru` by its name.
#[test]
fn the_lru_of_the_engine_misses_as_lru_does() {
    let trace = compact(skewed(300_000), Bounds::default());
    for share in [10, 4, 2] {
        let bytes = trace.footprint_bytes() / share;
        let of = |policy| misses(&trace, policy, bytes, Accounting::Payload) as f64;
        let (engine, exact) = (of(Policy::Engine(Eviction::Lru)), of(Policy::Lru));
        assert!((0.97..1.03).contains(&(engine / exact)), "1/{share}: {engine} of {exact}");
        assert!(engine < of(Policy::Fifo), "1/{share}");
    }
}

#[test]
fn traces_beyond_the_memory_are_sampled() {
    let requests = skewed(100_000);
    let bounds = Bounds { bytes_max: 300_000, ..Bounds::default() };
    let trace = compact(requests, bounds);
    assert_eq!(trace.requests, 100_000);
    assert!(trace.events.len() * 8 + trace.objects() * 22 <= 300_000);
    assert!(trace.fraction <= 0.5 && trace.reads_kept > 5_000);
    let rules = Rules { memory_bytes_max: 1 << 20, ..Rules::default() };
    let share = share_that_fits(&trace, rules, 64 << 20);
    let capacity = (64 << 20) as f64 * trace.fraction * share;
    assert!(capacity <= f64::from(1 << 20) && share < 1.0);
}

#[test]
fn the_warm_up_is_not_counted() {
    let trace = compact(skewed(10_000), Bounds::default());
    let rules = Rules { warm_up: 0.5, ..Rules::default() };
    let case = Case { policy: Policy::Lru, bytes: 1 << 30 };
    let simulation = Simulation::new(&trace, rules, &[Policy::Lru]);
    let ratio = simulation.run(&[case], |_| ()).expect("simulated")[0];
    assert!((4_900..=5_100).contains(&ratio.counts.reads));
    let all = misses(&trace, Policy::Lru, 1 << 30, Accounting::Real);
    assert_eq!(all, trace.objects() as u64);
    assert!(ratio.counts.misses < all / 2);
}

#[test]
fn belady_is_not_beaten_and_larger_memories_miss_less() {
    let trace = compact(skewed(100_000), Bounds::default());
    for bytes in [200_000, 800_000] {
        let of = |policy| misses(&trace, policy, bytes, Accounting::Payload);
        let belady = of(Policy::Belady);
        for policy in Policy::all() {
            assert!(of(policy) >= belady, "{policy}");
        }
    }
    let text =
        recommend(&Simulation::new(&trace, Rules::default(), &[]), Policy::usual()[0], room_for_all(&trace));
    let recommended = text.expect("simulated");
    let [memory, half, double] = recommended.memory.expect("some memory");
    assert!(half.objects >= memory.objects && memory.objects >= double.objects);
    assert!(memory.objects <= recommended.least * 1.1 + 0.006);
    assert!(recommended.text().contains("Recommended"));
}

fn recommended(requests: Vec<Request<'static>>) -> Recommendation {
    let trace = compact(requests, Bounds::default());
    let simulation = Simulation::new(&trace, Rules::default(), &[]);
    recommend(&simulation, Policy::usual()[0], room_for_all(&trace)).expect("simulated")
}

#[test]
fn recommendations_state_memory_and_reason() {
    // One object, again and again.
    let one = recommended((0..1000).map(|at| request(at, Operation::Get, 7, 100)).collect());
    assert_eq!(one.memory.expect("some").map(|ratio| ratio.counts.misses), [1; 3]);
    assert_eq!(one.memory.expect("some")[0].case.bytes, 1 << 20);
    assert!(one.text().contains("Recommended: 1 MiB, the least that a server can have"));
    // Nothing is read twice.
    let never = recommended((0..1000).map(|at| request(at, Operation::Get, at, 100)).collect());
    assert!(never.memory.is_none() && never.text().contains("100.0 %"));
    assert!(never.text().starts_with("No memory is recommended"));
    // Objects that are much smaller than what they cost: all of them are needed.
    let tiny = (0..400_000).map(|at| request(0, Operation::Get, at % 100_000, 1));
    let tiny = recommended(tiny.collect());
    let memory = tiny.memory.expect("some")[0];
    assert!((tiny.least - 0.25).abs() < 1e-9 && memory.objects <= 0.276, "{memory:?}");
    assert!((3 << 20..8 << 20).contains(&memory.case.bytes), "{memory:?}");
}

/// The simulation takes no memory that a server would have to spare.
#[test]
fn much_memory_is_not_taken() {
    let trace = compact(skewed(10_000), Bounds::default());
    let rules = Rules { memory_bytes_max: 64 << 20, ..Rules::default() };
    assert!(share_that_fits(&trace, rules, 1 << 50) >= 1.0);
    let policy = Policy::usual()[0];
    for accounting in [Accounting::Real, Accounting::Payload] {
        assert_eq!(misses(&trace, policy, 1 << 50, accounting), trace.objects() as u64);
    }
}

/// Two simulations that were written apart: that of `stats`, request by request, and this one.
#[test]
fn statistics_find_the_same_misses() {
    use crate::trace::stats::misses_at;
    let mut requests = Vec::new();
    for (at, one) in skewed(60_000).into_iter().enumerate() {
        let operation = match at % 11 {
            0 => Operation::Set,
            1 => Operation::Delete,
            2 => Operation::Touch,
            3 => Operation::Increment,
            4 => Operation::Add,
            5 => Operation::GetAndTouch,
            _ => Operation::Get,
        };
        let sets_expiry = matches!(operation, Operation::Set | Operation::Touch);
        requests.push(Request { operation, expiry_s: sets_expiry.then_some(at as u32 % 3 * 40), ..one });
    }
    // Before its first expiry is told an object has none here, and its first one there.
    let first = |request: &Request<'static>| Request {
        operation: Operation::Set,
        expiry_s: Some(0),
        time_ms: 0,
        ..*request
    };
    let known: Vec<_> = requests.iter().map(first).collect();
    let requests = [known, requests].concat();
    let trace = compact(requests.clone(), Bounds::default());
    for bytes in [1 << 20, 4 << 20, 64 << 20] {
        let here = misses(&trace, Policy::usual()[0], bytes, Accounting::Real);
        let mut made = Made { requests: requests.clone(), next: 0 };
        let there = misses_at(&mut made, bytes).expect("gathered");
        let off = (here as f64 - there) / here as f64;
        // Keys have other numbers, and so other places.
        let most_off = if bytes == 64 << 20 { 1e-9 } else { 0.02 };
        assert!(off.abs() < most_off, "{bytes}: {here} and {there}");
    }
}
