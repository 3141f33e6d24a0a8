//! Events, from what has changed between two looks at the server: workers and clients report nothing.

use micanite_control::Balance;
use micanite_engine::Route;

use super::events::{Events, Kind};
use crate::shared::{Ending, Server};

/// What the last look has seen.
#[derive(Debug)]
pub(super) struct Observer {
    generation: u64,
    routes: Vec<Route>,
    balance: Balance,
    is_recording: bool,
    accepting: bool,
    ending: Ending,
    /// Loads of certificates and of passwords that were done, and that were refused.
    secrets: [u32; 4],
    refusals: [u64; REFUSALS.len()],
}

const SECRETS: [&str; 4] = [
    "certificates were loaded again",
    "certificates were not loaded again; the log says why",
    "passwords were loaded again",
    "passwords were not loaded again; the log says why",
];
/// Texts of refusals, in the order of [`refusals`].
const REFUSALS: [&str; 6] = [
    "connections refused: as many as allowed (-c)",
    "logins refused: wrong user or password",
    "logins refused: too many wrong ones from their address",
    "values refused: larger than allowed (-I)",
    "values refused: no memory left",
    "TLS handshakes failed",
];

fn refusals(server: &Server) -> [u64; REFUSALS.len()] {
    let totals = server.totals();
    let wrong = totals.auth_errors.saturating_sub(totals.auth_limited);
    let handshakes = totals.ssl_handshake_errors;
    let (large, memory) = (totals.store_too_large, totals.store_no_memory);
    [server.acceptor.now().rejected, wrong, totals.auth_limited, large, memory, handshakes]
}

fn routes(server: &Server) -> Vec<Route> {
    let cache = &server.shared.cache;
    (0..cache.layout().partitions).filter_map(|partition| cache.route(partition)).collect()
}

fn secrets(server: &Server) -> [u32; 4] {
    let tls = server.tls.as_ref().map_or((0, 0), |tls| tls.refreshes());
    let auth = server.auth.as_ref().map_or((0, 0), |auth| auth.refreshes());
    [tls.0, tls.1, auth.0, auth.1]
}

impl Observer {
    pub fn new(server: &Server) -> Self {
        Self {
            generation: server.shared.cache.generation(),
            routes: routes(server),
            balance: server.balance.get(),
            is_recording: false,
            accepting: true,
            ending: Ending::Not,
            secrets: [0; SECRETS.len()],
            refusals: [0; REFUSALS.len()],
        }
    }

    /// Looks again.
    pub fn look(&mut self, server: &Server, now_s: u32, events: &mut Events) {
        let generation = server.shared.cache.generation();
        if generation != self.generation {
            self.generation = generation;
            self.look_at_routes(server, now_s, events);
        }
        let balance = server.balance.get();
        if balance != self.balance {
            let text = format!("balance: {} -> {}", self.balance.name(), balance.name());
            events.add(Kind::Routes, now_s, text);
            self.balance = balance;
        }
        let is_recording = server.shared.recorder.numbers().is_recording;
        if is_recording != self.is_recording {
            let text = if is_recording { "a recording began" } else { "the recording ended" };
            events.add(Kind::Control, now_s, text);
            self.is_recording = is_recording;
        }
        let accepting = server.acceptor.now().accepting;
        if !accepting && self.accepting {
            events.add_refusals(now_s, "no descriptors left: connections wait", "", 1);
        }
        self.accepting = accepting;
        let ending = server.shared.ending();
        if ending != self.ending {
            events.add(Kind::End, now_s, "the server ends");
            self.ending = ending;
        }
        for (text, (now, before)) in SECRETS.iter().zip(secrets(server).iter().zip(&self.secrets)) {
            if now != before {
                events.add(Kind::Secrets, now_s, *text);
            }
        }
        self.secrets = secrets(server);
        let refused = refusals(server);
        for (text, (now, before)) in REFUSALS.iter().zip(refused.iter().zip(&self.refusals)) {
            if now > before {
                events.add_refusals(now_s, text, "", now - before);
            }
        }
        self.refusals = refused;
    }

    fn look_at_routes(&mut self, server: &Server, now_s: u32, events: &mut Events) {
        let now = routes(server);
        let mut modes: Vec<(Route, Route, usize)> = Vec::new();
        let mut moved = 0;
        for (before, after) in self.routes.iter().zip(&now) {
            moved += usize::from(before.owner != after.owner);
            if before.access == after.access {
                continue;
            }
            let is_same =
                |it: &&mut (Route, Route, usize)| it.0.access == before.access && it.1.access == after.access;
            match modes.iter_mut().find(is_same) {
                Some(found) => found.2 += 1,
                None => modes.push((*before, *after, 1)),
            }
        }
        for (before, after, count) in modes {
            let (before, after) = (before.access.name(), after.access.name());
            let of = if count == now.len() { "all partitions".into() } else { partitions(count) };
            events.add(Kind::Routes, now_s, format!("access mode of {of}: {before} -> {after}"));
        }
        if moved > 0 {
            events.add(Kind::Routes, now_s, format!("{} to another worker", partitions(moved)));
        }
        self.routes = now;
    }
}

fn partitions(count: usize) -> String {
    format!("{count} partition{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, NOW_S};

    #[test]
    fn changes_become_events_once() {
        let bench = Bench::new("");
        let server = &bench.server;
        let (mut observer, mut events) = (Observer::new(server), Events::default());
        observer.look(server, NOW_S, &mut events);
        assert!(events.since(0).is_empty());
        server.shared.counters[0].auth_errors.add(3);
        server.shared.counters[0].auth_limited.add(1);
        server.balance.set(Balance::Auto);
        server.acceptor.set_pausing(true);
        for second in 0..3 {
            observer.look(server, NOW_S + second, &mut events);
        }
        server.end(Ending::Gracefully);
        observer.look(server, NOW_S + 4, &mut events);
        let found: Vec<_> = events.since(0).iter().map(|event| (event.text.clone(), event.count)).collect();
        assert_eq!(
            found,
            [
                ("balance: off -> auto".into(), 1),
                ("no descriptors left: connections wait".into(), 1),
                (REFUSALS[1].into(), 2),
                (REFUSALS[2].into(), 1),
                ("the server ends".into(), 1),
            ]
        );
    }
}
