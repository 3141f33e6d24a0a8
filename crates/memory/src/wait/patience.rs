//! A wait for another thread, in rounds: it spins, yields, then sleeps.

use crate::sync::yield_now;

/// Lets the thread wait as long as what it waits for is not there.
#[derive(Debug, Default)]
pub struct Patience(u32);

/// Rounds of spinning, before the other thread is assumed to be descheduled.
const SPINS: u32 = 200;

impl Patience {
    /// Begins a wait that does not spin.
    pub const fn of_yields() -> Self {
        Self(SPINS)
    }

    /// Spins or yields. Returns false once a sleep is due.
    #[inline]
    pub fn stays_awake(&mut self) -> bool {
        if self.0 >= SPINS || cfg!(loom) {
            return self.has_yielded();
        }
        self.0 += 1;
        crate::sync::spin_loop();
        true
    }

    /// Waits for a round.
    #[inline]
    pub fn pause(&mut self) {
        if !self.stays_awake() {
            nap();
        }
    }
}

/// Models sleep at once, and a sleep lets the model run another thread.
#[cfg(loom)]
use yield_now as nap;
#[cfg(loom)]
impl Patience {
    fn has_yielded(&mut self) -> bool {
        false
    }
}

#[cfg(not(loom))]
use yields::nap;
#[cfg(not(loom))]
mod yields {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use super::{Patience, SPINS, yield_now};

    /// Rounds of yielding: about 100 microseconds where no other thread wants the CPU.
    const YIELDS: u32 = 200;
    /// A yield of this length has let another thread run. Programs that use up the CPU run for milliseconds.
    const SLOW_YIELD: Duration = Duration::from_micros(100);
    /// Waits of a thread without a yield after a slow one.
    const WAITS_CROWDED: u32 = 1000;
    /// Sleep of a round. The system adds about as much.
    const NAP: Duration = Duration::from_micros(50);

    thread_local! {
        /// Next waits of this thread that do not yield.
        static CROWDED: Cell<u32> = const { Cell::new(0) };
    }

    impl Patience {
        /// Yields, unless a sleep is due.
        #[cold]
        pub(super) fn has_yielded(&mut self) -> bool {
            let crowded = CROWDED.get();
            if self.0 == SPINS && crowded > 0 {
                CROWDED.set(crowded - 1);
                self.0 = SPINS + YIELDS;
            }
            if self.0 >= SPINS + YIELDS {
                return false;
            }
            let began = Instant::now();
            yield_now();
            self.0 += 1;
            if began.elapsed() >= SLOW_YIELD {
                CROWDED.set(WAITS_CROWDED);
                self.0 = SPINS + YIELDS;
            }
            true
        }
    }

    #[cold]
    pub(super) fn nap() {
        std::thread::sleep(NAP);
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_wait_spins_then_yields_then_sleeps() {
            let awake = |mut patience: Patience| (0..).take_while(|_| patience.stays_awake()).count() as u32;
            CROWDED.set(0);
            // Another program may take the first yield.
            assert!((SPINS + 1..=SPINS + YIELDS).contains(&awake(Patience::default())));
            CROWDED.set(1);
            assert_eq!((awake(Patience::of_yields()), CROWDED.get()), (0, 0));
            let (mut patience, began) = (Patience(SPINS + YIELDS), Instant::now());
            patience.pause();
            assert!(began.elapsed() >= NAP);
        }
    }
}
