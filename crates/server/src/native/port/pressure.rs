//! Detects loss of datagrams in front of a socket.

use crate::limits::{PRESSURE_LASTS_MS, PRESSURE_WINDOW_MS};

/// Follows what the kernel says of its queue.
#[derive(Debug, Default)]
pub struct Pressure {
    dropped_total: u32,
    window_began_ms: u64,
    received: u64,
    dropped: u64,
    /// Share of the last window that lost something, in 1/65,535; 0 = none yet.
    share: u16,
    until_ms: u64,
}

impl Pressure {
    /// `received` more datagrams have come; the kernel has dropped `dropped_total` since the
    /// socket was opened (a count that wraps). Returns how many were dropped since the last call.
    #[inline]
    pub fn note(&mut self, received: usize, dropped_total: u32, now_ms: u64) -> u32 {
        let dropped = dropped_total.wrapping_sub(self.dropped_total);
        self.dropped_total = dropped_total;
        if now_ms.saturating_sub(self.window_began_ms) >= PRESSURE_WINDOW_MS {
            self.window_began_ms = now_ms;
            self.received = 0;
            self.dropped = 0;
        }
        self.received += received as u64;
        if dropped != 0 {
            self.dropped += u64::from(dropped);
            let of = self.dropped + self.received;
            self.share = ((self.dropped * u64::from(u16::MAX)) / of).max(1) as u16;
            self.until_ms = now_ms + PRESSURE_LASTS_MS;
        }
        dropped
    }

    /// The share of datagrams lost lately, in 1/65,535; 0 if none was for a while.
    #[inline]
    pub fn level(&self, now_ms: u64) -> u16 {
        if now_ms < self.until_ms { self.share } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_shows_for_a_while_with_its_share() {
        let mut pressure = Pressure::default();
        assert_eq!(pressure.note(10, 0, 1000), 0);
        assert_eq!(pressure.level(1000), 0);
        assert_eq!(pressure.note(20, 10, 1001), 10);
        assert_eq!(pressure.level(1001), u16::MAX / 4);
        assert_eq!(pressure.note(10, 10, 1050), 0);
        assert_eq!(pressure.level(1050), u16::MAX / 4);
        assert_eq!(pressure.level(1001 + PRESSURE_LASTS_MS), 0);
    }

    #[test]
    fn the_kernels_count_may_wrap() {
        let mut pressure = Pressure::default();
        pressure.note(1, u32::MAX, 1000);
        assert_eq!(pressure.note(1, 1, 1001), 2);
        assert!(pressure.level(1001) > 0);
    }
}
