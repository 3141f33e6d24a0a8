//! Counts of a run.

use super::frames::HEADER_BYTES;
use super::packets::Packets;
use crate::Result;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub succeeded: u64,
    pub answered_datagrams: u64,
    /// Sent, or due in an open loop.
    pub sent_datagrams: u64,
    pub lost_datagrams: u64,
    /// Payload of what was answered before the end of a closed loop.
    pub reply_bytes: u64,
    pub elapsed_s: f64,
}

impl Tally {
    pub fn per_second(&self) -> f64 {
        self.succeeded as f64 / self.elapsed_s
    }

    /// Gigabits per second that the requests take on an Ethernet, and the replies, of a closed loop.
    pub fn gigabits(&self, requests: &Packets) -> [f64; 2] {
        // Preamble, checksum and gap.
        const AROUND_BYTES: usize = 24;
        let datagrams = self.answered_datagrams as f64;
        let around_bytes = datagrams * (HEADER_BYTES + AROUND_BYTES) as f64;
        [datagrams * requests.payload_bytes(), self.reply_bytes as f64]
            .map(|payload_bytes| (payload_bytes + around_bytes) * 8.0 / 1e9 / self.elapsed_s)
    }

    /// Share of the sent datagrams that were lost.
    pub fn lost_ratio(&self) -> f64 {
        self.lost_datagrams as f64 / self.sent_datagrams.max(1) as f64
    }

    /// Quantiles of an open loop's latencies, in microseconds. What was lost takes for ever.
    pub fn quantiles(&self, mut latency_ns: Vec<u32>) -> impl Fn(f64) -> f64 {
        latency_ns.resize(self.sent_datagrams as usize, u32::MAX);
        latency_ns.sort_unstable();
        move |quantile| {
            let place = (latency_ns.len().saturating_sub(1) as f64 * quantile) as usize;
            f64::from(latency_ns.get(place).copied().unwrap_or(u32::MAX)) / 1000.0
        }
    }

    /// Fails when too much of it was no success: a miss costs something else than a hit.
    pub fn check(&self, what: &str, batch: usize) -> Result<()> {
        let answered = self.answered_datagrams * batch as u64;
        let few = self.succeeded * 50 < answered * 49 || self.succeeded == 0;
        if few || self.lost_ratio() > 0.05 {
            return Err(format!("{what}: {self:?}").into());
        }
        Ok(())
    }
}
