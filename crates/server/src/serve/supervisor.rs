//! Messages to systemd (`sd_notify`): the server is ready, restarts or ends, and, with `WatchdogSec=`, every
//! worker moves.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::control::restart::monotonic_ns;
use crate::shared::{Ending, Server};
use crate::telemetry::log::start;

/// Sends the messages. Without a supervisor it does nothing.
#[derive(Debug)]
pub(super) struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Watchdog>,
}

#[derive(Debug)]
struct Watchdog {
    /// A quarter of the supervisor's timeout.
    interval: Duration,
    told: Instant,
    /// The CPU time of each worker then: a worker that moves uses some.
    seen_ns: Vec<u64>,
}

impl Supervisor {
    /// Reads the supervisor's socket and its timeout from the environment.
    pub fn of_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let socket = variable("NOTIFY_SOCKET").and_then(|name| match open(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                start!(WARN, "the supervisor cannot be told anything: NOTIFY_SOCKET {name}: {error}");
                None
            }
        });
        let own_pid = std::process::id().to_string();
        let is_meant = variable("WATCHDOG_PID").is_none_or(|pid| pid == own_pid);
        let limit_us = variable("WATCHDOG_USEC").and_then(|text| text.parse::<u64>().ok());
        let limit_us = limit_us.filter(|us| *us > 0 && is_meant && socket.is_some());
        let watchdog = limit_us.map(|us| Watchdog {
            interval: Duration::from_micros(us / 4),
            told: Instant::now(),
            seen_ns: Vec::new(),
        });
        Self { socket, watchdog }
    }

    /// Returns the time that the main thread may wait for events, at most `otherwise_ms`.
    pub fn wait_ms_max(&self, otherwise_ms: u16) -> u16 {
        let interval = self.watchdog.as_ref().map(|watchdog| watchdog.interval);
        interval.map_or(otherwise_ms, |interval| {
            let interval_ms = u16::try_from(interval.as_millis()).unwrap_or(u16::MAX);
            otherwise_ms.min(interval_ms.max(1))
        })
    }

    /// The server serves.
    pub fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
    }

    /// The server ends, or another program follows in the same process.
    pub fn ending(&self, restarts: bool) {
        match restarts {
            false => self.tell("STOPPING=1\nSTATUS=ending"),
            true => {
                let now_us = monotonic_ns() / 1000;
                self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=restarting"));
            }
        }
    }

    /// Tells, when it is time, that all workers have moved since the last time. One that has not
    /// keeps the watchdog waiting; while the server ends, the end has its own deadline.
    pub fn tick(&mut self, server: &Server) {
        let Some(watchdog) = &mut self.watchdog else {
            return;
        };
        if watchdog.told.elapsed() < watchdog.interval {
            return;
        }
        let spent_ns: Vec<_> = server.shared.counters.iter().map(|of| of.cpu_ns.get()).collect();
        let mut pairs = watchdog.seen_ns.iter().zip(&spent_ns);
        if pairs.all(|(before, now)| before != now) || server.shared.ending() != Ending::Not {
            watchdog.told = Instant::now();
            watchdog.seen_ns = spent_ns;
            self.tell("WATCHDOG=1");
        }
    }

    /// A supervisor that does not listen misses something; the server goes on.
    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// A name that begins with `@` is in the abstract name space.
fn open(name: &str) -> std::io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // Never wait for a supervisor.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}
