//! Samples of what the server's own loop is at: a thread of higher priority on the same core looks now and
//! then. The loop only notes which part begins, so the parts take turns without a gap and none is negative.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, compiler_fence};
use std::time::Duration;

use micanite_net::frames::testing::Call;
use micanite_server::native::{Part, Watch};
use micanite_workload::Random;

use crate::harness::system;

/// Parts of a request's time, in the order of a request.
pub(super) const PARTS: [&str; 5] = ["I/O", "headers", "parse", "engine", "reply"];
/// Places of samples: the parts, and then what is no request's.
const PLACES: usize = PARTS.len() + 1;
const IO: u8 = 0;
const OTHER: u8 = PARTS.len() as u8;
/// Frames are being received, if there are some.
const RECEIVING: u8 = OTHER + 1;
/// A sample is taken after this time, or up to twice as long: at random, so that it keeps no step with the
/// loop.
const PAUSE_US: u64 = 200;
const SEED: u64 = 63;

/// Counts of samples.
#[derive(Debug)]
pub(super) struct Samples {
    /// The part at work.
    now: AtomicU8,
    /// Samples since the queue was asked.
    receiving: AtomicU64,
    counts: [AtomicU64; PLACES],
}

impl Samples {
    pub fn new() -> Self {
        Self {
            now: AtomicU8::new(OTHER),
            receiving: AtomicU64::new(0),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline]
    fn begin(&self, place: u8) {
        // The sampler stops this thread and sees its stores in their order.
        compiler_fence(Ordering::SeqCst);
        self.now.store(place, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Counts what was sampled while the queue was asked, now that the answer is known.
    #[inline]
    fn received(&self, frames: usize) {
        let (is_idle, pending) = (frames == 0, self.receiving.load(Ordering::Relaxed));
        self.begin(if is_idle { OTHER } else { part(Part::Headers) });
        if pending > 0 {
            let pending = self.receiving.swap(0, Ordering::Relaxed);
            self.count(if is_idle { OTHER } else { IO }, pending);
        }
    }

    fn count(&self, place: u8, samples: u64) {
        self.counts[usize::from(place)].fetch_add(samples, Ordering::Relaxed);
    }

    /// Counts so far of each part, and of what is no request's.
    pub fn counts(&self) -> [u64; PLACES] {
        std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed))
    }

    fn sample(&self) {
        match self.now.load(Ordering::Relaxed) {
            RECEIVING => drop(self.receiving.fetch_add(1, Ordering::Relaxed)),
            place => self.count(place, 1),
        }
    }
}

/// Takes samples until the process ends, on the core of the thread that calls this.
pub(super) fn take(samples: Arc<Samples>) {
    std::thread::spawn(move || {
        system::put_thread_first();
        let mut random = Random::new(SEED);
        loop {
            std::thread::sleep(Duration::from_micros(PAUSE_US + random.below(PAUSE_US)));
            samples.sample();
        }
    });
}

const fn part(part: Part) -> u8 {
    match part {
        Part::Headers => 1,
        Part::Requests => 2,
        Part::Engine => 3,
        Part::Replies => 4,
        Part::Other => OTHER,
    }
}

/// The loop's end.
#[derive(Clone, Debug)]
pub(super) struct Noted(pub Arc<Samples>);

impl Watch for Noted {
    #[inline]
    fn begin(&mut self, of: Part) {
        self.0.begin(part(of));
    }
}

impl Noted {
    /// Notes a call of the queue.
    #[inline]
    pub fn call(&self, call: Call) {
        match call {
            Call::Receives => self.0.begin(RECEIVING),
            Call::Received(frames) => self.0.received(frames),
            Call::Sends => self.0.begin(IO),
            Call::Sent => self.0.begin(part(Part::Headers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_finds_nothing_is_no_part_of_a_request() {
        let samples = Arc::new(Samples::new());
        let mut noted = Noted(Arc::clone(&samples));
        let mut step = |watch: &mut dyn FnMut(&mut Noted)| {
            watch(&mut noted);
            samples.sample();
        };
        step(&mut |noted| noted.call(Call::Receives));
        step(&mut |noted| noted.call(Call::Received(0)));
        assert_eq!(samples.counts(), [0, 0, 0, 0, 0, 2]);
        step(&mut |noted| noted.call(Call::Receives));
        step(&mut |noted| noted.call(Call::Received(3)));
        step(&mut |noted| noted.begin(Part::Requests));
        step(&mut |noted| noted.begin(Part::Engine));
        step(&mut |noted| noted.begin(Part::Replies));
        step(&mut |noted| noted.call(Call::Sends));
        step(&mut |noted| noted.call(Call::Sent));
        step(&mut |noted| noted.begin(Part::Other));
        assert_eq!(samples.counts(), [2, 2, 1, 1, 1, 3]);
    }
}
