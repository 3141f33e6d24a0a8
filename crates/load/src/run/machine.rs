//! CPU time of the server, and of this thread.

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

/// CPU seconds that a process has used so far, user and system.
///
/// # Errors
/// When there is no such process.
pub(crate) fn cpu_s(pid: u32) -> Result<f64, String> {
    precise_cpu_s(pid).map_or_else(|| stat_cpu_s(pid), Ok)
}

/// CPU seconds that the calling thread has used so far, user and system.
pub(crate) fn thread_cpu_s() -> Option<f64> {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
    Some(used.tv_sec() as f64 + used.tv_nsec() as f64 / 1e9)
}

/// Sums the scheduler's account of each thread, in nanoseconds; threads that have ended are missing, which
/// servers do not do under load.
fn precise_cpu_s(pid: u32) -> Option<f64> {
    let mut sum_ns = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let account = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        sum_ns += account.split(' ').next()?.parse::<u64>().ok()?;
    }
    (sum_ns > 0).then_some(sum_ns as f64 / 1e9)
}

/// Reads `/proc/PID/stat`, in clock ticks (usually hundredths of a second).
fn stat_cpu_s(pid: u32) -> Result<f64, String> {
    let what = || format!("--server-pid: there is no process {pid} to be seen");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|_| what())?;
    // The name in parentheses may contain anything; user and system time are fields 14 and 15.
    let (_, after_name) = stat.rsplit_once(") ").ok_or_else(what)?;
    let fields: Vec<_> = after_name.split(' ').collect();
    let ticks = |field: usize| {
        let text = fields.get(field - 3).copied().unwrap_or_default();
        text.parse::<u64>().map_err(|_| what())
    };
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    Ok((ticks(14)? + ticks(15)?) as f64 / ticks_per_s as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_this_process() {
        let pid = std::process::id();
        assert!(cpu_s(pid).unwrap() > 0.0);
        let before = stat_cpu_s(pid).unwrap();
        let mut x = 1u64;
        while stat_cpu_s(pid).unwrap() <= before {
            for step in 0..1_000_000u64 {
                x = std::hint::black_box(x.wrapping_mul(3) ^ step);
            }
        }
        assert!(cpu_s(u32::MAX - 1).is_err());
    }
}
