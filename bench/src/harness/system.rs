//! The machine: cores, priorities, CPU time of processes.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

use crate::Result;

/// A path below what cargo builds into, as seen from here where it is below that: `target/release/micanite`.
pub(crate) fn target(path: &str) -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let here = std::env::current_dir().unwrap_or_default();
    folder.strip_prefix(here).unwrap_or(&folder).join(path)
}

/// Pins this thread (and threads it will start) to one CPU.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    pin_to(&[cpu])
}

/// The same to several, between which they may move.
pub(crate) fn pin_to(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu)?;
    }
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

/// Lets the processes of this session run before those of others, or not.
pub(crate) fn favour_session(favour: bool) {
    let nice = if favour { "-20" } else { "0" };
    // Without the right to it figures vary more, as the report says of the priority.
    let _ = std::fs::write("/proc/self/autogroup", nice);
}

fn schedule(policy: &str, priority: &str) -> bool {
    schedule_process(std::process::id(), policy, priority)
}

fn schedule_process(pid: u32, policy: &str, priority: &str) -> bool {
    Command::new("chrt")
        .args(["--all-tasks", policy, "--pid", priority])
        .arg(pid.to_string())
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
    scheduled_ns(pid, 0)
}

/// Time that all threads of a process could have run, and a CPU was not given to them, in nanoseconds.
pub(crate) fn waited_ns(pid: u32) -> Result<u64> {
    scheduled_ns(pid, 1)
}

/// Sum of a field of the scheduler's account of each thread.
fn scheduled_ns(pid: u32, field: usize) -> Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        sum += stat.split_whitespace().nth(field).unwrap_or("0").parse::<u64>()?;
    }
    Ok(sum)
}

/// CPU time of a process in ticks of USER_HZ, in the program and in the kernel.
pub(crate) fn cpu_ticks(pid: u32) -> Result<(u64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, which may have blanks in it, ends with the last bracket.
    let (_, words) = stat.rsplit_once(") ").ok_or("no name in a process's stat")?;
    let mut words = words.split(' ').skip(11);
    let mut next = || words.next().ok_or("a process's stat is too short");
    Ok((next()?.parse()?, next()?.parse()?))
}

/// USER_HZ.
const TICKS_PER_S: f64 = 100.0;

/// Time that some CPUs have been busy with anything, interrupts included, in seconds since the
/// machine began. It is counted by ticks.
pub(crate) fn busy_s(cpus: &[usize]) -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let mut ticks = 0;
    for cpu in cpus {
        let name = format!("cpu{cpu}");
        let mut words = stat
            .lines()
            .map(str::split_whitespace)
            .find_map(|mut words| (words.next() == Some(&name)).then_some(words))
            .ok_or("a CPU is not in /proc/stat")?;
        // User, nice, system; idle and waiting for disks; interrupts, soft interrupts.
        for field in [0, 0, 0, 2, 0] {
            let word = words.nth(field).ok_or("/proc/stat is too short")?;
            ticks += word.parse::<u64>()?;
        }
    }
    Ok(ticks as f64 / TICKS_PER_S)
}

/// Time that a CPU has done nothing, or nothing for this machine (waiting for disks, taken by the
/// host), in seconds since it began. Idle time is measured, not counted by ticks; it is shown in
/// hundredths of a second.
pub(crate) fn idle_s(cpu: usize) -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let name = format!("cpu{cpu}");
    let mut lines = stat.lines().map(str::split_whitespace);
    let words = lines.find_map(|mut words| (words.next() == Some(&name)).then_some(words));
    let words: Vec<_> = words.ok_or("a CPU is not in /proc/stat")?.collect();
    let mut ticks = 0;
    // Idle, waiting for disks; stolen.
    for field in [3, 4, 7] {
        let word = words.get(field).ok_or("/proc/stat is too short")?;
        ticks += word.parse::<u64>()?;
    }
    Ok(ticks as f64 / TICKS_PER_S)
}

/// Gives another process, or a thread of the kernel's, the priority of [`make_real_time`].
pub(crate) fn make_other_real_time(pid: u32) -> bool {
    schedule_process(pid, "--rr", "1")
}

/// Puts this thread before those of [`make_real_time`].
pub(crate) fn put_thread_first() -> bool {
    let thread = nix::unistd::gettid().to_string();
    Command::new("chrt")
        .args(["--rr", "--pid", "2", &thread])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Puts another process, or a thread of the kernel's, before all others of normal priority.
pub(crate) fn make_other_first(pid: u32) -> bool {
    Command::new("renice")
        .args(["-n", "-20", "-p", &pid.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns the model of the CPU, or the architecture where the kernel names no model.
pub(crate) fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split(": ").nth(1)).unwrap_or(std::env::consts::ARCH).to_owned()
}

#[cfg(test)]
mod tests {
    use micanite_control::cores;

    use super::*;

    #[test]
    fn cpu_time_grows_with_work() {
        // Threads of other tests end meanwhile, and take their time with them: so of a child.
        // It ends with this process, however that ends.
        let mut child =
            std::process::Command::new("sh").args(["-c", "while kill -0 $PPID; do :; done"]).spawn().unwrap();
        let before = cpu_time_ns(child.id()).unwrap();
        while cpu_time_ns(child.id()).unwrap() == before {
            std::thread::yield_now();
        }
        assert!(cpu_time_ns(child.id()).unwrap() > before);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn ticks_are_those_of_the_program_and_of_the_kernel() {
        let before = cpu_ticks(std::process::id()).unwrap().0;
        let mut x = 1u64;
        while cpu_ticks(std::process::id()).unwrap().0 == before {
            for step in 0..1_000_000u64 {
                x = std::hint::black_box(x.wrapping_mul(3) ^ step);
            }
        }
        assert!(cpu_ticks(u32::MAX).is_err());
    }

    #[test]
    fn the_machine_has_been_busy() {
        let cpus = cores::allowed();
        let all = busy_s(&cpus).unwrap();
        let first = busy_s(&cpus[..1]).unwrap();
        assert!(first > 0.0 && all >= first);
    }
}
