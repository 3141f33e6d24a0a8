//! A wait for another thread, in rounds.

#[cfg(not(loom))]
use std::time::Duration;

use crate::sync::yield_now;

/// Rounds of spinning, before the other thread is assumed to be descheduled.
const SPINS: u32 = 200;
/// Rounds of yielding, before programs are assumed that use up the CPU: a yield may cost their time slices.
#[cfg(not(loom))]
const YIELDS: u32 = 4;
/// Sleep of a round after these. The system adds about as much.
#[cfg(not(loom))]
const NAP: Duration = Duration::from_micros(50);

/// The rounds of a wait: it spins, then yields, then sleeps.
#[derive(Debug, Default)]
pub struct Patience(u32);

impl Patience {
    /// Begins a wait that does not spin.
    pub const fn of_yields() -> Self {
        Self(SPINS)
    }

    /// Spins or yields. Returns false once a sleep is due.
    #[cfg(not(loom))]
    #[inline]
    pub fn stays_awake(&mut self) -> bool {
        let is_awake = self.0 < SPINS + YIELDS;
        self.0 += u32::from(is_awake);
        match self.0 {
            0..=SPINS => std::hint::spin_loop(),
            _ if is_awake => yield_now(),
            _ => {}
        }
        is_awake
    }

    /// Models sleep at once.
    #[cfg(loom)]
    pub fn stays_awake(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        false
    }

    /// Waits for a round.
    #[inline]
    pub fn pause(&mut self) {
        if !self.stays_awake() {
            nap();
        }
    }
}

#[cfg(not(loom))]
#[cold]
fn nap() {
    std::thread::sleep(NAP);
}

/// Lets the model run another thread.
#[cfg(loom)]
fn nap() {
    yield_now();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_spins_then_yields_then_sleeps() {
        let awake = |mut patience: Patience| (0..).take_while(|_| patience.stays_awake()).count() as u32;
        assert_eq!(awake(Patience::default()), SPINS + YIELDS);
        assert_eq!(awake(Patience::of_yields()), YIELDS);
        let (mut patience, began) = (Patience(SPINS + YIELDS), std::time::Instant::now());
        patience.pause();
        assert!(began.elapsed() >= NAP);
    }
}
