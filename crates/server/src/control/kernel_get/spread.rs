//! When other CPUs take over a part of the datagrams (`--kernel-get-spread PERCENT`; Hippos 3.2.5): above
//! that load of a core that answers, one more; well below it, one less. Below it idle cores stay idle.

use std::fs;
use std::time::{Duration, Instant};

use crate::telemetry::log::debug;
use micanite_kernel::KernelGet;

/// Interval between two measurements of loads.
const PERIOD: Duration = Duration::from_millis(100);
/// Periods that a load is taken over: the kernel counts in steps of 10 ms.
const WINDOW: usize = 5;
/// One less has to leave the others so far below.
const HYSTERESIS_PERCENT: u32 = 10;
/// Periods after a change before there is one more, and one less.
const HOLD_MORE: u32 = 5;
const HOLD_LESS: u32 = 20;
/// A CPU answers if it has answered so many datagrams in a window.
const ANSWERED_MIN: u64 = 100;

/// CPU time since the start of the machine, by `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTime {
    busy: u64,
    all: u64,
}

/// Choice of the CPUs that take over.
#[derive(Debug)]
struct Policy {
    percent: u32,
    /// CPUs that may take over, in the order of their numbers.
    candidates: Vec<usize>,
    /// CPUs that take over now.
    chosen: Vec<usize>,
    periods_since_change: u32,
}

impl Policy {
    fn new(percent: u32, candidates: Vec<usize>) -> Self {
        Self { percent, candidates, chosen: Vec::new(), periods_since_change: HOLD_LESS }
    }

    /// A period later, with loads in percent and the datagrams that each CPU has answered. Returns whether
    /// those that take over have changed.
    fn period(&mut self, loads: &[u32], answered: &[u64]) -> bool {
        self.periods_since_change = self.periods_since_change.saturating_add(1);
        let load = |cpu: usize| loads.get(cpu).copied().unwrap_or(0);
        let answers = |cpu: &usize| answered.get(*cpu).is_some_and(|it| *it >= ANSWERED_MIN);
        let answering: Vec<usize> = (0..loads.len()).filter(answers).collect();
        let highest = answering.iter().map(|cpu| load(*cpu)).max().unwrap_or(0);
        let changed = if highest >= self.percent {
            self.periods_since_change > HOLD_MORE && self.more(load, &answering)
        } else {
            self.periods_since_change > HOLD_LESS && self.less(load, &answering)
        };
        if changed {
            self.periods_since_change = 0;
        }
        changed
    }

    /// The CPU with the least to do takes a part.
    fn more(&mut self, load: impl Fn(usize) -> u32, answering: &[usize]) -> bool {
        let is_free = |cpu: &usize| !answering.contains(cpu) && !self.chosen.contains(cpu);
        let free = self.candidates.iter().copied().filter(is_free);
        // One that is as busy with something else would gain nothing.
        let idle = free.filter(|cpu| load(*cpu) + HYSTERESIS_PERCENT < self.percent);
        let Some(cpu) = idle.min_by_key(|cpu| load(*cpu)) else {
            return false;
        };
        self.chosen.push(cpu);
        true
    }

    /// The last that was taken goes, if the others can do its part.
    fn less(&mut self, load: impl Fn(usize) -> u32, answering: &[usize]) -> bool {
        let all: u32 = answering.iter().map(|cpu| load(*cpu)).sum();
        let left = answering.len().max(self.chosen.len() + 1) as u32 - 1;
        let fits = all / left.max(1) + HYSTERESIS_PERCENT < self.percent;
        fits && self.chosen.pop().is_some()
    }
}

/// Loads over the last periods, and the policy over them.
#[derive(Debug)]
pub(super) struct Spread {
    policy: Policy,
    /// The last of them, the oldest first: times and datagrams answered by CPU.
    window: Vec<(Vec<CpuTime>, Vec<u64>)>,
    next: Instant,
}

impl Spread {
    /// From so many percent on, to these CPUs.
    pub fn new(percent: u32, candidates: Vec<usize>) -> Self {
        Self { policy: Policy::new(percent, candidates), window: Vec::new(), next: Instant::now() }
    }

    /// Measures, if it is time for it, and has the program follow.
    pub fn step(&mut self, program: &KernelGet) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + PERIOD;
        let Ok(text) = fs::read_to_string("/proc/stat") else {
            return;
        };
        self.window.push((times(&text), program.answered_by_cpu()));
        if self.window.len() <= WINDOW {
            return;
        }
        let (before, after) = (self.window.remove(0), &self.window[WINDOW - 1]);
        let pairs = after.0.iter().zip(&before.0);
        let loads: Vec<u32> = pairs.map(|(after, before)| load(*before, *after)).collect();
        let pairs = after.1.iter().zip(&before.1);
        let answered: Vec<u64> = pairs.map(|(after, before)| after - before).collect();
        if self.policy.period(&loads, &answered) {
            let chosen = &self.policy.chosen;
            program.set_spread(chosen);
            debug!("GETs in the kernel: CPUs that help are {chosen:?} now, loads are {loads:?} percent");
        }
    }
}

/// The lines of CPUs, by number.
fn times(text: &str) -> Vec<CpuTime> {
    let mut all = Vec::new();
    for line in text.lines() {
        let Some((number, words)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' ')) else {
            continue;
        };
        let Ok(number) = number.parse::<usize>() else {
            continue;
        };
        // user nice system idle iowait irq softirq steal
        let ticks: Vec<u64> = words.split_whitespace().take(8).flat_map(str::parse).collect();
        let idle = ticks.iter().skip(3).take(2).sum::<u64>();
        let sum = ticks.iter().sum::<u64>();
        all.resize(all.len().max(number + 1), CpuTime::default());
        all[number] = CpuTime { busy: sum - idle, all: sum };
    }
    all
}

fn load(before: CpuTime, after: CpuTime) -> u32 {
    let all = after.all.saturating_sub(before.all).max(1);
    let busy = after.busy.saturating_sub(before.busy);
    (busy * 100 / all).min(100) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Periods of these loads, in which the first CPUs answer; the numbers of those that take over at the
    /// end.
    fn after(policy: &mut Policy, periods: u32, loads: &[u32], answering: usize) -> Vec<usize> {
        let answered: Vec<u64> = (0..loads.len()).map(|cpu| u64::from(cpu < answering) * 1000).collect();
        for _ in 0..periods {
            policy.period(loads, &answered);
        }
        policy.chosen.clone()
    }

    #[test]
    fn idle_cores_stay_idle_below_the_threshold() {
        let mut policy = Policy::new(70, vec![0, 1, 2, 3]);
        assert_eq!(after(&mut policy, 100, &[69, 0, 0, 0], 1), [0; 0]);
        // Whatever else makes a core busy is none of it.
        assert_eq!(after(&mut policy, 100, &[10, 100, 0, 0], 1), [0; 0]);
    }

    #[test]
    fn above_it_one_after_the_other_takes_a_part_the_idlest_first() {
        let mut policy = Policy::new(70, vec![0, 1, 2, 3]);
        assert_eq!(after(&mut policy, 1, &[90, 30, 5, 65], 1), [2]);
        assert_eq!(after(&mut policy, HOLD_MORE, &[90, 30, 40, 65], 1), [2], "it has to show first");
        assert_eq!(after(&mut policy, 1, &[90, 30, 40, 65], 1), [2, 1]);
        // The last is busy itself.
        assert_eq!(after(&mut policy, 100, &[90, 80, 80, 65], 3), [2, 1]);
    }

    #[test]
    fn one_less_only_if_the_others_stay_well_below() {
        let mut policy = Policy::new(70, vec![0, 1]);
        assert_eq!(after(&mut policy, 1, &[90, 0], 1), [1]);
        assert_eq!(after(&mut policy, 100, &[35, 30], 2), [1], "65 + 10 would be above");
        assert_eq!(after(&mut policy, 100, &[30, 25], 2), [0; 0]);
        assert_eq!(after(&mut policy, 100, &[55, 0], 1), [0; 0], "no swinging");
    }

    #[test]
    fn times_are_those_of_the_kernel() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 5 80 5 0 20 0 0 0\ncpu2 1 1 1 1 1 1 1 1 0 0\nintr 5\n";
        let times = times(text);
        assert_eq!(times[0], CpuTime { busy: 35, all: 120 });
        assert_eq!(times[1], CpuTime::default());
        assert_eq!(times[2], CpuTime { busy: 6, all: 8 });
        let later = CpuTime { busy: 45, all: 140 };
        assert_eq!(load(times[0], later), 50);
        assert_eq!(load(later, later), 0);
    }
}
