//! Idle policy of a thread: some rounds at full speed, some that let other threads run, then sleep.

use crate::limits::{IDLE_SPIN_ROUNDS, IDLE_YIELD_ROUNDS};

/// Action before the next look for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again at once (`std::hint::spin_loop`).
    Spin,
    /// Let other threads of this CPU run (`sched_yield`), then look again.
    Yield,
    /// Wait for an event, for example in [`crate::Poller::wait`].
    Block,
}

/// The stepped idle policy of a thread that polls. It has no clock and calls nothing.
///
/// ```
/// use micanite_net::{Idle, IdleRounds, Step};
/// let mut idle = Idle::new(IdleRounds { spin: 1, r#yield: 1 });
/// assert_eq!(idle.step(), Step::Spin);
/// assert_eq!(idle.step(), Step::Yield);
/// assert_eq!(idle.step(), Step::Block);
/// assert_eq!(idle.step(), Step::Block);
/// idle.busy(); // there was work
/// assert_eq!(idle.step(), Step::Spin);
/// ```
#[derive(Clone, Debug)]
pub struct Idle {
    rounds: IdleRounds,
    /// Rounds without work, up to the sum of both.
    idle_rounds: u32,
}

/// Numbers of rounds that an idle thread spins and yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleRounds {
    /// Rounds of [`Step::Spin`] after the last work; 0 to begin with yields.
    pub spin: u32,
    /// Rounds of [`Step::Yield`] after those; 0 to block at once.
    pub r#yield: u32,
}

impl Default for IdleRounds {
    fn default() -> Self {
        Self { spin: IDLE_SPIN_ROUNDS, r#yield: IDLE_YIELD_ROUNDS }
    }
}

impl Idle {
    /// Starts in the state after work.
    pub const fn new(rounds: IdleRounds) -> Self {
        Self { rounds, idle_rounds: 0 }
    }

    /// Records a round with work: the next idle time begins with spinning.
    #[inline]
    pub const fn busy(&mut self) {
        self.idle_rounds = 0;
    }

    /// Records a round without work; returns the next action. Returns `Block` until [`Self::busy`]
    /// once all rounds are used.
    #[inline]
    pub const fn step(&mut self) -> Step {
        let idle_rounds = self.idle_rounds;
        if idle_rounds < self.rounds.spin {
            self.idle_rounds += 1;
            Step::Spin
        } else if idle_rounds - self.rounds.spin < self.rounds.r#yield {
            self.idle_rounds = idle_rounds.saturating_add(1);
            Step::Yield
        } else {
            Step::Block
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(spin: u32, r#yield: u32, count: usize) -> Vec<Step> {
        let mut idle = Idle::new(IdleRounds { spin, r#yield });
        (0..count).map(|_| idle.step()).collect()
    }

    #[test]
    fn spins_then_yields_then_blocks() {
        use Step::{Block, Spin, Yield};
        assert_eq!(steps(2, 1, 5), [Spin, Spin, Yield, Block, Block]);
        assert_eq!(steps(0, 2, 3), [Yield, Yield, Block]);
        assert_eq!(steps(1, 0, 2), [Spin, Block]);
        assert_eq!(steps(0, 0, 2), [Block, Block]);
    }

    #[test]
    fn work_restarts_the_steps() {
        let mut idle = Idle::new(IdleRounds::default());
        for interrupted_after in [1, IDLE_SPIN_ROUNDS, IDLE_SPIN_ROUNDS + IDLE_YIELD_ROUNDS] {
            for _ in 0..interrupted_after {
                assert_ne!(idle.step(), Step::Block);
            }
            idle.busy();
        }
        let rounds = (0..).take_while(|_| idle.step() != Step::Block).count();
        assert_eq!(rounds as u32, IDLE_SPIN_ROUNDS + IDLE_YIELD_ROUNDS);
    }

    #[test]
    fn the_longest_rounds_do_not_overflow() {
        let mut idle = Idle::new(IdleRounds { spin: u32::MAX, r#yield: u32::MAX });
        idle.idle_rounds = u32::MAX - 1;
        assert_eq!(idle.step(), Step::Spin);
        assert_eq!(idle.step(), Step::Yield);
        assert_eq!(idle.step(), Step::Yield);
    }
}
