//! Clients of the native protocol: opening them, and waiting for the directories of their servers.

use std::time::{Duration, Instant};

use micanite_client::{BypassPort, Link, Options, ServerAddress, UdpOptions};

use crate::address::{Address, Endpoint};
use crate::run::clock::nanoseconds;

/// A server may take so long to say which of its cores listen where, or as long as a reply may take.
const INTRODUCTION_MIN: Duration = Duration::from_secs(2);
/// Interval of looks at each of several clients while one waits.
const TURN_NS: u64 = 1_000_000;

/// Opens a client of all targets, by a port around the kernel if there is one. [`introduce`] fetches
/// their directories.
///
/// # Errors
/// When there is no socket or no queue to be had.
pub(crate) fn open_link(
    targets: &[Address],
    endpoints: &[Endpoint],
    options: Options,
    udp: &UdpOptions,
    port: Option<&BypassPort>,
) -> Result<Link, String> {
    let server = |(target, endpoint): (&Address, &Endpoint)| match endpoint {
        Endpoint::Inet(address) => {
            Ok(ServerAddress { address: *address, name: target.host().to_owned(), weight: 1 })
        }
        Endpoint::Unix(_) | Endpoint::Fabric(_) | Endpoint::Local(_) => {
            Err(format!("{target}: the native protocol uses UDP"))
        }
    };
    let servers = targets.iter().zip(endpoints).map(server);
    let servers = servers.collect::<Result<Vec<_>, String>>()?;
    let opened = match port {
        None => Link::open(&servers, options, udp),
        Some(port) => {
            let queue = port.queue();
            queue.and_then(|queue| Link::open_on(&servers, options, queue))
        }
    };
    opened.map_err(|error| failed(&targets[0], &error))
}

fn failed(target: &Address, error: &dyn std::fmt::Display) -> String {
    format!("{target}: {error}")
}

/// Waits for the directories of all servers, for `timeout` or [`INTRODUCTION_MIN`], whichever is longer.
/// `why_silent` explains why a target does not reply, by its
/// number and the other version of the protocol that it speaks, if it does.
///
/// # Errors
/// When a server does not reply; what to do then.
pub(crate) fn introduce(
    targets: &[Address],
    links: &mut [Link],
    timeout: Duration,
    why_silent: impl Fn(usize, Option<u8>) -> String,
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| failed(&targets[0], error);
    let (began, patience) = (Instant::now(), timeout.max(INTRODUCTION_MIN));
    loop {
        let mut silent = None;
        for (number, link) in links.iter_mut().enumerate() {
            let now_ns = link.now_ns();
            link.poll(now_ns, |_| {}).map_err(|error| failed(&error))?;
            let driver = link.driver();
            let first = (0..driver.servers()).find(|server| !driver.is_alive(*server));
            silent = silent.or(first.map(|server| (number, server)));
        }
        let Some((number, server)) = silent else {
            return Ok(());
        };
        let (alone, link) = (links.len() == 1, &mut links[number]);
        let version = link.driver().other_version(server);
        let left_ns = nanoseconds(patience.saturating_sub(began.elapsed()));
        if left_ns == 0 || version.is_some() {
            return Err(why_silent(server, version));
        }
        let wait_ns = if alone { left_ns } else { TURN_NS };
        link.wait(wait_ns).map_err(|error| failed(&error))?;
    }
}
