//! The machine: cores, priorities, CPU time of processes.

use std::process::{Command, Stdio};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

use crate::Result;

/// The CPUs this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return vec![0];
    };
    (0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .collect()
}

/// Pins this thread (and threads it will start) to one CPU.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Gives this process a real-time priority (round robin); children inherit it.
pub(crate) fn make_real_time() -> bool {
    schedule("--rr", "1")
}

/// Takes the real-time priority back, and asks for the best of the normal ones: for the session's
/// group if the kernel groups by session (until [`favour_session`] says otherwise).
pub(crate) fn make_normal() -> bool {
    favour_session(true);
    schedule("--other", "0")
}

/// Whether the processes of this session come before those of others.
pub(crate) fn favour_session(favour: bool) {
    let nice = if favour { "-20" } else { "0" };
    // Without the right to it figures vary more, as the report says of the priority.
    let _ = std::fs::write("/proc/self/autogroup", nice);
}

fn schedule(policy: &str, priority: &str) -> bool {
    let pid = std::process::id().to_string();
    Command::new("chrt")
        .args(["--all-tasks", policy, "--pid", priority, &pid])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Allows as many open files as there may be, and says how many.
pub(crate) fn raise_file_limit() -> u64 {
    let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 0;
    };
    match setrlimit(Resource::RLIMIT_NOFILE, most, most) {
        Ok(()) => most,
        Err(_) => 0,
    }
}

/// CPU time that all threads of a process have used, user and system, in nanoseconds.
pub(crate) fn cpu_time_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        sum += stat.split(' ').next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(sum)
}

/// The model of the CPU, for the report.
pub(crate) fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split(": ").nth(1))
        .unwrap_or("unknown CPU")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work() {
        let before = cpu_time_ns(std::process::id()).unwrap();
        let mut x = 1u64;
        while cpu_time_ns(std::process::id()).unwrap() == before {
            for step in 0..1_000_000u64 {
                x = std::hint::black_box(x.wrapping_mul(3) ^ step);
            }
        }
        assert!(cpu_time_ns(std::process::id()).unwrap() > before);
    }

    #[test]
    fn there_is_a_cpu() {
        assert!(!allowed_cpus().is_empty());
    }
}
