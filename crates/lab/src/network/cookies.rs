//! Cost of the proof of an address per datagram.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant;

use micanite_server::native::{CookieKey, Cookies};

use super::Options;
use crate::results::measurement::Measurement;

const CHECKS: u32 = 1 << 20;
const NOW_S: u32 = 1_000_000;

pub(super) fn run(options: &Options, report: &mut Measurement) {
    for (name, addresses) in
        [("cookie check, one client after the other", 1024u16), ("cookie check, the same client again", 1)]
    {
        if !options.common.wants(name) {
            continue;
        }
        let mut cookies = Cookies::new(CookieKey([1, 2]));
        let peers: Vec<_> = (0..addresses)
            .map(|port| SocketAddr::from(([10, 0, 0, 1], 1024 + port)))
            .map(|peer| (peer, cookies.check(peer, 0, NOW_S).renewal))
            .collect();
        let rounds: Vec<_> = (0..options.common.rounds())
            .map(|_| {
                let began = Instant::now();
                for (peer, cookie) in peers.iter().cycle().take(CHECKS as usize) {
                    let proof = cookies.check(black_box(*peer), black_box(*cookie), NOW_S);
                    black_box(proof);
                }
                began.elapsed().as_nanos() as f64 / f64::from(CHECKS)
            })
            .collect();
        report.value(name, "time", "ns", &rounds);
    }
}
