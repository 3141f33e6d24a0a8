//! Number of datagrams that may be in flight to one server core (`docs/protocol.md`, "Pace").

/// Minimum time between two cuts. A server core sends "slow down" for 100 ms after a loss. One cut
/// per round trip for all this time would close any window.
const CUT_INTERVAL_NS: u64 = 25_000_000;
const CUT_MIN: f32 = 1.0 / 16.0;
const CUT_MAX: f32 = 0.5;
/// Smallest window after missed replies alone. On a network that loses by chance, a smaller one
/// does not help, and an overloaded server sends "slow down".
const MISSED_MIN: f32 = 4.0;

/// A window with additive growth and multiplicative cuts. It doubles per round trip until the first
/// cut.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    datagrams: f32,
    max: f32,
    doubling: bool,
    cut_at: u64,
}

impl Window {
    pub fn new(first: u16, max: u16) -> Self {
        let max = f32::from(max.max(1));
        Self { datagrams: f32::from(first).clamp(1.0, max), max, doubling: true, cut_at: 0 }
    }

    pub fn allows(&self, in_flight: u32) -> bool {
        (in_flight as f32) < self.datagrams
    }

    /// Grows after a reply, if the window was the limit.
    pub fn grow(&mut self) {
        let by = if self.doubling { 1.0 } else { 1.0 / self.datagrams };
        self.datagrams = (self.datagrams + by).min(self.max);
    }

    /// Cuts the window after a "slow down" with a share of lost datagrams; returns whether it
    /// became smaller.
    pub fn slow_down(&mut self, now_ns: u64, rtt_ns: u64, pressure: u16) -> bool {
        let share = f32::from(pressure) / f32::from(u16::MAX);
        let share = share.clamp(CUT_MIN, CUT_MAX);
        self.cut(now_ns, rtt_ns.max(CUT_INTERVAL_NS), share, 1.0)
    }

    /// Cuts the window after a missed reply. All losses of datagrams in flight at the same time
    /// count as one.
    pub fn missed(&mut self, now_ns: u64, sent_at: u64, rtt_ns: u64) -> bool {
        sent_at >= self.cut_at && self.cut(now_ns, rtt_ns, CUT_MAX, MISSED_MIN)
    }

    fn cut(&mut self, now_ns: u64, interval_ns: u64, share: f32, min: f32) -> bool {
        self.doubling = false;
        if now_ns < self.cut_at.saturating_add(interval_ns) && self.cut_at != 0 {
            return false;
        }
        self.cut_at = now_ns;
        self.datagrams = (self.datagrams * (1.0 - share)).max(min.min(self.datagrams));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_NS: u64 = 100_000;

    #[test]
    fn grows_by_one_per_round_trip_after_the_first_cut() {
        let mut window = Window::new(16, 512);
        (0..16).for_each(|_| window.grow());
        assert!(window.allows(31) && !window.allows(32));
        assert!(window.missed(1, 0, RTT_NS));
        assert!(window.allows(15) && !window.allows(16));
        assert!(!window.missed(RTT_NS, RTT_NS - 1, RTT_NS), "once per round trip");
        assert!(!window.missed(9 * RTT_NS, 0, RTT_NS), "lost with the others");
        (0..17).for_each(|_| window.grow());
        assert!(window.allows(16) && !window.allows(18));
    }

    #[test]
    fn stays_within_its_limits() {
        let mut window = Window::new(16, 32);
        (0..1000).for_each(|_| window.grow());
        assert!(window.allows(31) && !window.allows(32));
        for time in 1..100 {
            window.missed(time * RTT_NS * 2, time * RTT_NS * 2 - 1, RTT_NS);
        }
        assert!(window.allows(3) && !window.allows(4));
        for time in 1..100 {
            window.slow_down((100 + time) * CUT_INTERVAL_NS, RTT_NS, u16::MAX);
        }
        assert!(window.allows(0) && !window.allows(1));
    }

    #[test]
    fn windows_shrink_by_the_share_of_losses() {
        let after = |pressure| {
            let mut window = Window::new(100, 512);
            assert!(window.slow_down(CUT_INTERVAL_NS, RTT_NS, pressure));
            assert!(!window.slow_down(CUT_INTERVAL_NS + RTT_NS, RTT_NS, pressure));
            window.datagrams
        };
        assert!(after(0) < 100.0 && after(0) > 90.0);
        assert!(after(u16::MAX / 5) < after(0));
        assert_eq!(after(u16::MAX), 50.0);
    }
}
