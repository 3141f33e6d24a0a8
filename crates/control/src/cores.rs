//! The CPUs that this process may use.

use std::collections::{HashMap, HashSet};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs that this process may use: one of each physical core first, then their siblings.
pub fn allowed() -> Vec<usize> {
    let mut cores = HashSet::new();
    let (mut first, siblings): (Vec<_>, Vec<_>) =
        usable().into_iter().partition(|cpu| cores.insert(core_of(*cpu)));
    first.extend(siblings);
    first
}

/// The same CPUs, those of each physical core together.
pub fn by_core() -> Vec<Vec<usize>> {
    let mut cores: Vec<Vec<usize>> = Vec::new();
    let mut numbers = HashMap::new();
    for cpu in usable() {
        let number = *numbers.entry(core_of(cpu)).or_insert(cores.len());
        cores.resize_with(cores.len().max(number + 1), Vec::new);
        cores[number].push(cpu);
    }
    cores
}

fn usable() -> Vec<usize> {
    cpus_in(sched_getaffinity(Pid::from_raw(0)))
}

/// The CPUs in a set, in the kernel's order. CPU 0 alone if the kernel refuses to tell, as it does on a
/// machine with more CPUs than a [`CpuSet`] holds.
fn cpus_in(set: nix::Result<CpuSet>) -> Vec<usize> {
    match set {
        Ok(set) => (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect(),
        Err(_) => vec![0],
    }
}

/// The default number of workers: the physical cores that this process may use, fewer
/// where a control group allows less time.
pub fn physical() -> usize {
    let quota = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    by_core().len().min(quota).max(1)
}

/// The name of a core, equal for all its threads. Where the kernel does not tell, each CPU counts
/// as a core.
fn core_of(cpu: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    std::fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string())
}

/// Keeps the calling thread on a CPU. Returns whether the kernel agreed.
pub fn pin(cpu: usize) -> bool {
    bind(&[cpu])
}

/// Keeps the calling thread on some CPUs. Returns whether the kernel agreed.
pub fn bind(cpus: &[usize]) -> bool {
    let mut set = CpuSet::new();
    let is_set = cpus.iter().all(|cpu| set.set(*cpu).is_ok());
    is_set && sched_setaffinity(Pid::from_raw(0), &set).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_cores_and_a_thread_can_be_pinned_to_each_cpu() {
        let cpus = allowed();
        assert!(!cpus.is_empty());
        assert!((1..=cpus.len()).contains(&physical()));
        let pinned = std::thread::spawn(move || cpus.iter().all(|cpu| pin(*cpu) && allowed() == [*cpu]));
        assert!(pinned.join().unwrap());
    }

    #[test]
    fn there_is_a_cpu_if_the_affinity_cannot_be_read() {
        assert_eq!(cpus_in(Err(nix::errno::Errno::EINVAL)), [0]);
    }

    #[test]
    fn cores_have_all_cpus_that_may_be_used() {
        let (mut cpus, mut of_cores) = (allowed(), by_core().concat());
        cpus.sort_unstable();
        of_cores.sort_unstable();
        assert_eq!(of_cores, cpus);
        assert!(by_core().iter().all(|core| !core.is_empty()));
    }
}
