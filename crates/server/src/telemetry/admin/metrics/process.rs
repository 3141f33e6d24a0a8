//! The process and its connections. Names that begin with `process_` are those of Prometheus'
//! own client libraries.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::unistd::{SysconfVar, sysconf};

use super::super::exposition::{Exposition, Type};
use super::super::state::State;
use crate::shared::Server;

pub(super) fn write(state: &State, to: &mut Exposition) {
    to.family("micanite_build_info", Type::Gauge, "Version of the server; always 1.");
    to.sample(&[("version", &env!("CARGO_PKG_VERSION"))], 1);
    let gauge = Type::Gauge;
    to.one(
        "micanite_ready",
        gauge,
        "Whether connections are welcome: 1, or 0 at start and end.",
        u8::from(state.readiness().is_ok()),
    );
    if let Some((server, clock)) = state.running() {
        to.one("micanite_start_time_seconds", gauge, "When the server started, unix time.", server.started_s);
        let uptime_s = crate::shared::clock::seconds(clock.now_ms()).saturating_sub(server.started_s);
        to.one("micanite_uptime_seconds", gauge, "How long the server has run.", uptime_s);
        connections(server, to);
    }
    usage(to);
}

fn connections(server: &Server, to: &mut Exposition) {
    let acceptor = server.acceptor.now();
    to.one("micanite_connections", Type::Gauge, "Connections that are open.", server.connections());
    to.one(
        "micanite_connections_max",
        Type::Gauge,
        "Connections allowed at the same time.",
        server.settings.connections_max,
    );
    to.one(
        "micanite_connections_accepted_total",
        Type::Counter,
        "Connections handed to workers.",
        acceptor.accepted,
    );
    to.one(
        "micanite_connections_rejected_total",
        Type::Counter,
        "Connections refused because there were as many as allowed.",
        acceptor.rejected,
    );
}

/// Whatever the kernel does not tell, in a container perhaps, is left out.
fn usage(to: &mut Exposition) {
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        to.one(
            "process_cpu_seconds_total",
            Type::Counter,
            "CPU time of the process.",
            seconds(usage.user_time()) + seconds(usage.system_time()),
        );
    }
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    let statm = fs::read_to_string("/proc/self/statm").ok();
    let resident = statm.and_then(|text| text.split(' ').nth(1)?.parse::<i64>().ok());
    if let (Some(pages), Some(bytes)) = (resident, page_bytes) {
        to.one(
            "process_resident_memory_bytes",
            Type::Gauge,
            "Memory of the process that is in use; huge pages of hugetlbfs do not count.",
            pages * bytes,
        );
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        to.one("process_open_fds", Type::Gauge, "Open descriptors.", files.count());
    }
    if let Ok((soft, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        to.one("process_max_fds", Type::Gauge, "Descriptors that are allowed.", soft);
    }
}
