//! Several servers: how ketama spreads keys over them, and what the loss of one does.

use micanite_client::ketama_shares;
use serde::Serialize;

/// More servers are no plan: a client could not keep their connections.
pub const SERVERS_MAX: usize = 10_000;

/// Load of all servers, and capacity of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Requests per second of all clients.
    pub rate: f64,
    /// Requests per second that a server serves within the target of latency.
    pub server_rate: f64,
    /// Requests per second of the busiest core of a server that serve within the target.
    pub core_rate: f64,
    /// Share of the requests to the hottest key.
    pub top: f64,
    /// Share of the requests that the owner of a key alone serves: all in EREW, writes in CREW.
    pub owned: f64,
    /// Partitions of a server.
    pub partitions: f64,
    /// Bytes of all items.
    pub memory_bytes: f64,
    /// Bytes of a server for items.
    pub server_memory_bytes: f64,
    /// Hits of reads while all servers are there.
    pub hit_ratio: f64,
}

/// Servers that carry the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// Servers.
    pub servers: usize,
    /// Share of the keys of the server with most of them, over the mean.
    pub spread: f64,
    /// Requests per second of the busiest server.
    pub busiest_rate: f64,
    /// Bytes of memory of the server with most keys.
    pub largest_memory_bytes: f64,
    /// After the loss of one server, before its items are stored again; nothing of a single server.
    pub loss: Option<Loss>,
}

/// Effects of the loss of a server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// Share of the keys that were on it.
    pub keys_lost: f64,
    /// Hit ratio right after, if the hottest key was on it.
    pub hit_ratio: f64,
    /// Load of the busiest of the others, over what it was for the busiest before.
    pub load_factor: f64,
    /// True if the others carry the load within the target.
    pub is_carried: bool,
}

fn names(servers: usize) -> Vec<String> {
    (1..=servers).map(|number| format!("server-{number}:11211")).collect()
}

fn most(shares: &[f64]) -> f64 {
    shares.iter().copied().fold(0.0, f64::max)
}

impl Need {
    /// Returns the rate of a server with this share of the keys that has the hottest key, too.
    fn rate_of(&self, share: f64) -> f64 {
        self.rate * (self.top + (1.0 - self.top) * share)
    }

    /// Returns whether a server with this share of the keys and the hottest key can carry it.
    fn is_carried(&self, share: f64) -> bool {
        let owned = self.rate * (self.top + (1.0 - self.top) * share / self.partitions);
        let shared = self.rate_of(share) / self.partitions;
        self.rate_of(share) <= self.server_rate
            && owned * self.owned + shared * (1.0 - self.owned) <= self.core_rate
            && self.memory_bytes * share <= self.server_memory_bytes
    }

    /// Finds the fewest servers that carry the load.
    ///
    /// # Errors
    /// When no number of servers can: a sentence that says what binds.
    pub fn fleet(&self) -> Result<Fleet, String> {
        let of_owner = self.rate * self.top * self.owned;
        if of_owner > self.core_rate {
            return Err(format!(
                "the hottest partition binds: its key alone gets {:.3} million requests/s that one core has \
                 to serve, which serves {:.3} million; more servers do not help",
                of_owner / 1e6,
                self.core_rate / 1e6
            ));
        }
        let by_rate = self.rate * (1.0 - self.top) / self.server_rate;
        let least = by_rate.max(self.memory_bytes / self.server_memory_bytes).ceil().max(1.0);
        if least.is_nan() || least > SERVERS_MAX as f64 {
            let binds = if by_rate >= least - 1.0 { "throughput" } else { "memory" };
            return Err(format!(
                "{binds} binds: {least:.0} servers of this machine would be needed, and a plan has at most \
                 {SERVERS_MAX}"
            ));
        }
        let mut servers = least as usize;
        loop {
            let shares = ketama_shares(&names(servers));
            if self.is_carried(most(&shares)) {
                return Ok(self.describe(servers, &shares));
            }
            servers += 1 + servers / 50;
            if servers > SERVERS_MAX {
                return Err(format!(
                    "ketama's spread binds: {SERVERS_MAX} servers leave too much for the busiest of them"
                ));
            }
        }
    }

    /// Describes so many servers, whether they carry the load or not.
    fn describe(&self, servers: usize, shares: &[f64]) -> Fleet {
        let largest = most(shares);
        let loss = (servers > 1).then(|| {
            let lost = shares.iter().position(|share| *share == largest).unwrap_or(0);
            let mut left = names(servers);
            left.remove(lost);
            let after = most(&ketama_shares(&left));
            Loss {
                keys_lost: largest,
                // The hottest key may be on it.
                hit_ratio: self.hit_ratio * (1.0 - self.top - (1.0 - self.top) * largest),
                load_factor: self.rate_of(after) / self.rate_of(largest),
                is_carried: self.is_carried(after),
            }
        });
        Fleet {
            servers,
            spread: largest * servers as f64,
            busiest_rate: self.rate_of(largest),
            largest_memory_bytes: self.memory_bytes * largest,
            loss,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(rate: f64) -> Need {
        Need {
            rate,
            server_rate: 1e6,
            core_rate: 1e6,
            top: 0.0,
            owned: 1.0,
            partitions: 1.0,
            memory_bytes: 1e9,
            server_memory_bytes: 1e9,
            hit_ratio: 0.9,
        }
    }

    /// More load never needs fewer servers, and the busiest of them carries its part.
    #[test]
    fn more_load_needs_no_fewer_servers() {
        let mut before = 0;
        for rate in [1e5, 1e6, 2e6, 5e6, 2e7] {
            let fleet = need(rate).fleet().unwrap();
            assert!(fleet.servers >= before && fleet.busiest_rate <= 1e6, "{fleet:?}");
            before = fleet.servers;
        }
        assert!(before >= 20);
    }

    /// The loss of one of several servers takes its share of hits.
    #[test]
    fn a_lost_server_takes_its_hits() {
        let fleet = need(5e6).fleet().unwrap();
        let loss = fleet.loss.unwrap();
        assert!((loss.hit_ratio / 0.9 - (1.0 - loss.keys_lost)).abs() < 1e-9);
        let skewed = Need { top: 0.1, ..need(5e6) }.fleet().unwrap().loss.unwrap();
        let kept = (1.0 - skewed.keys_lost) * 0.9;
        assert!((skewed.hit_ratio / 0.9 - kept).abs() < 1e-9, "{skewed:?}");
        assert!(loss.load_factor >= 1.0 && fleet.spread > 1.0);
        assert!(need(1e5).fleet().unwrap().loss.is_none());
    }

    /// A load that no number of servers carries gets a sentence that says what binds.
    #[test]
    fn what_binds_is_said() {
        let hot = Need { top: 0.9, ..need(5e6) };
        assert!(hot.fleet().unwrap_err().starts_with("the hottest partition binds"));
        assert!(need(1e12).fleet().unwrap_err().starts_with("throughput binds"));
        let large = Need { memory_bytes: 1e18, ..need(1e5) };
        assert!(large.fleet().unwrap_err().starts_with("memory binds"));
    }
}
