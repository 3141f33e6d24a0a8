//! The process. Names that begin with `process_` are those of Prometheus'
//! own client libraries.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::unistd::{SysconfVar, sysconf};

use super::super::exposition::Exposition;
use super::super::state::State;
use super::families;

pub(super) fn write(state: &State, to: &mut Exposition) {
    to.family(&families::BUILD_INFO);
    to.sample(&[("version", &env!("CARGO_PKG_VERSION"))], 1);
    to.one(&families::READY, u8::from(state.readiness().is_ok()));
    usage(to);
}

/// Whatever the kernel does not tell, in a container perhaps, is left out.
fn usage(to: &mut Exposition) {
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        to.one(&families::PROCESS_CPU, seconds(usage.user_time()) + seconds(usage.system_time()));
    }
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    let statm = fs::read_to_string("/proc/self/statm").ok();
    let resident = statm.and_then(|text| text.split(' ').nth(1)?.parse::<i64>().ok());
    if let (Some(pages), Some(bytes)) = (resident, page_bytes) {
        to.one(&families::PROCESS_RESIDENT, pages * bytes);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        to.one(&families::PROCESS_FDS, files.count());
    }
    if let Ok((soft, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        to.one(&families::PROCESS_FDS_MAX, soft);
    }
}
