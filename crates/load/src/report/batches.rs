//! Part of a report about the datagrams of native clients: requests in them, beside equation 1 of Li et al.
//! (TOCS 2016).

use std::fmt::Write as _;

use micanite_client::{BATCH_SIZES_MAX, Counters, batch_that_pays, delay_of_batch_ns};
use micanite_workload::figure::{Axis, Kind, Line, LineChart, Point, grouped};
use serde::Serialize;

use crate::plan::Plan;
use crate::report::Report;

const SIZES: usize = BATCH_SIZES_MAX + 1;

/// Counts of native clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchTally {
    sent: [u64; SIZES],
    chosen: [u64; SIZES],
    requests: u64,
    waited_ns: u64,
    round_trips: u64,
    round_trips_ns: u64,
    /// Sum and number of looks at the number of destinations.
    destinations: u64,
    looks: u64,
}

impl Default for BatchTally {
    fn default() -> Self {
        Self::of(&Counters::default())
    }
}

impl BatchTally {
    pub fn of(counters: &Counters) -> Self {
        Self {
            sent: counters.batch_sizes,
            chosen: counters.chosen_sizes,
            requests: counters.gathered_requests,
            waited_ns: counters.gathering_ns,
            round_trips: counters.round_trips,
            round_trips_ns: counters.round_trips_ns,
            destinations: 0,
            looks: 0,
        }
    }

    /// The difference to an earlier tally of the same client.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: std::array::from_fn(|size| self.sent[size] - earlier.sent[size]),
            chosen: std::array::from_fn(|size| self.chosen[size] - earlier.chosen[size]),
            requests: self.requests - earlier.requests,
            waited_ns: self.waited_ns.wrapping_sub(earlier.waited_ns),
            round_trips: self.round_trips - earlier.round_trips,
            round_trips_ns: self.round_trips_ns - earlier.round_trips_ns,
            destinations: 0,
            looks: 0,
        }
    }

    /// Notes the number of server cores that there were requests for of late; none before the first one.
    pub fn note_destinations(&mut self, destinations: u32) {
        if destinations == 0 {
            return;
        }
        self.destinations += u64::from(destinations);
        self.looks += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.sent.iter_mut().zip(other.sent).for_each(|(to, from)| *to += from);
        self.chosen.iter_mut().zip(other.chosen).for_each(|(to, from)| *to += from);
        self.requests += other.requests;
        self.waited_ns = self.waited_ns.wrapping_add(other.waited_ns);
        self.round_trips += other.round_trips;
        self.round_trips_ns += other.round_trips_ns;
        self.destinations += other.destinations;
        self.looks += other.looks;
    }
}

/// Mean of the sizes; none of no datagrams.
fn mean(counts: &[u64; SIZES]) -> Option<f64> {
    let datagrams: u64 = counts.iter().sum();
    let requests: u64 = counts.iter().enumerate().map(|(size, count)| size as u64 * count).sum();
    (datagrams > 0).then(|| requests as f64 / datagrams as f64)
}

/// Requests per datagram in the measured part. A client is a connection; sizes of 64 and more count as 64.
#[derive(Clone, Debug, Serialize)]
pub struct BatchReport {
    pub servers: usize,
    /// Server cores that a client has requests for.
    pub destinations: f64,
    /// Operations per second of a client.
    pub client_rate_ops: f64,
    pub round_trip_us: f64,
    /// Mean number of requests of the datagrams that were sent, and how many had each number, from 0 on.
    pub sent: f64,
    pub sent_sizes: Vec<u64>,
    /// Mean number that the client chose by itself, when it began to fill a datagram.
    pub chosen: Option<f64>,
    /// The largest number whose delay by equation 1 is at most a tenth of the round trip.
    pub equation: f64,
    /// Mean time that requests waited for their datagram to leave.
    pub waited_us: f64,
    /// Their delay by equation 1, for the number that was sent.
    pub equation_us: f64,
}

impl BatchReport {
    pub(crate) fn new(plan: &Plan, tally: &BatchTally, rate_ops: f64) -> Option<Self> {
        let sent = mean(&tally.sent)?;
        let client_rate_ops = rate_ops / plan.connections as f64;
        let destinations = tally.destinations as f64 / tally.looks.max(1) as f64;
        let spacing_ns = destinations / client_rate_ops.max(f64::MIN_POSITIVE) * 1e9;
        let round_trip_ns = tally.round_trips_ns as f64 / tally.round_trips.max(1) as f64;
        let last = tally.sent.iter().rposition(|count| *count > 0).unwrap_or(0);
        Some(Self {
            servers: plan.targets.len(),
            destinations,
            client_rate_ops,
            round_trip_us: round_trip_ns / 1e3,
            sent,
            sent_sizes: tally.sent[..=last].to_vec(),
            chosen: mean(&tally.chosen).filter(|_| plan.adaptive_batch),
            equation: batch_that_pays(round_trip_ns, spacing_ns.max(f64::MIN_POSITIVE))
                .min(f64::from(u16::MAX)),
            waited_us: tally.waited_ns as f64 / tally.requests.max(1) as f64 / 1e3,
            equation_us: delay_of_batch_ns(sent, spacing_ns) / 1e3,
        })
    }

    /// Names and values of rows of the table.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let chosen = self.chosen.map_or_else(String::new, |chosen| format!(", {chosen:.2} chosen"));
        let sent = format!("{:.2} requests{chosen}; equation 1 gives {:.0}", self.sent, self.equation);
        let wait = format!(
            "{:.1} us on average, {:.1} by equation 1; {:.1} destinations, round trip {:.1} us",
            self.waited_us, self.equation_us, self.destinations, self.round_trip_us
        );
        vec![("datagrams", sent), ("wait in datagrams", wait)]
    }
}

/// Several runs, a line each.
pub(crate) fn batches_text(reports: &[Report]) -> String {
    let mut text = String::from(
        " servers  cores  ops/s of a client  round trip us  chosen    sent  equation 1  wait us  by equation \
         1\n",
    );
    for batches in reports.iter().filter_map(|report| report.batches.as_ref()) {
        let chosen = batches.chosen.map_or_else(|| "-".to_owned(), |chosen| format!("{chosen:.2}"));
        let _ = writeln!(
            text,
            "{:>8} {:>6.1} {:>18} {:>14.1} {:>7} {:>7.2} {:>11.0} {:>8.1} {:>14.1}",
            batches.servers,
            batches.destinations,
            grouped(batches.client_rate_ops, ' '),
            batches.round_trip_us,
            chosen,
            batches.sent,
            batches.equation,
            batches.waited_us,
            batches.equation_us,
        );
    }
    text
}

/// Draws requests per datagram against the rate of a client: sent, and by equation 1, for each number of
/// servers.
pub(crate) fn batches_chart(title: &str, reports: &[Report]) -> String {
    let batches: Vec<_> = reports.iter().filter_map(|report| report.batches.as_ref()).collect();
    let mut servers: Vec<_> = batches.iter().map(|batches| batches.servers).collect();
    servers.dedup();
    let line = |servers: usize, name: &str, kind: Kind, of: &dyn Fn(&BatchReport) -> f64| Line {
        name: format!("fan-out {servers}, {name}"),
        kind,
        points: batches
            .iter()
            .filter(|batches| batches.servers == servers)
            .map(|batches| Point::new(batches.client_rate_ops, of(batches)))
            .collect(),
    };
    let sent = servers.iter().map(|servers| line(*servers, "sent", Kind::Measured, &|batches| batches.sent));
    let equation = servers
        .iter()
        .map(|servers| line(*servers, "equation 1", Kind::Published, &|batches| batches.equation));
    LineChart {
        title: title.to_owned(),
        x: Axis::log("rate of the client (operations/s)"),
        y: Axis::log("requests per datagram"),
        lines: sent.chain(equation).collect(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what was counted since counts, and the equation stands beside what was sent.
    #[test]
    fn batches_stand_beside_the_equation() {
        let mut before = Counters::default();
        before.batch_sizes[1] = 7;
        let mut after = before.clone();
        (after.batch_sizes[3], after.batch_sizes[5]) = (10, 10);
        (after.chosen_sizes[4], after.chosen_sizes[6]) = (10, 10);
        (after.gathered_requests, after.gathering_ns) = (80, 80 * 15_000);
        (after.round_trips, after.round_trips_ns) = (20, 20 * 200_000);
        let mut tally = BatchTally::of(&after).since(&BatchTally::of(&before));
        tally.note_destinations(2);
        let mut plan = Plan::new(vec!["native://x".parse().unwrap()]);
        plan.adaptive_batch = true;
        let report = BatchReport::new(&plan, &tally, 200_000.0).unwrap();
        // Requests for a core come 10 us apart; two intervals are a tenth of the round trip.
        assert_eq!((report.sent, report.chosen, report.equation), (4.0, Some(5.0), 5.0));
        assert_eq!((report.waited_us, report.equation_us), (15.0, 15.0));
        assert_eq!(report.sent_sizes, [0, 0, 0, 10, 0, 10]);
        assert_eq!(report.rows()[0].1, "4.00 requests, 5.00 chosen; equation 1 gives 5");
        assert!(BatchReport::new(&plan, &BatchTally::default(), 1.0).is_none());
    }
}
