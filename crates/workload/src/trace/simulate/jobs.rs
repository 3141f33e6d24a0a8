//! Work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The threads that run jobs.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does every job, on all cores, and gives the results in the order of the jobs; they are begun in
/// that order.
pub fn on_all_cores<Job: Sync, Done: Send>(jobs: &[Job], work: impl Fn(&Job) -> Done + Sync) -> Vec<Done> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let Some(job) = jobs.get(number)
        {
            done.push((number, work(job)));
        }
        done
    };
    let mut done: Vec<_> = std::thread::scope(|scope| {
        let threads = cores().min(jobs.len().max(1));
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    done.sort_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_keep_their_order() {
        let jobs: Vec<u32> = (0..100).collect();
        assert_eq!(on_all_cores(&jobs, |&job| job), jobs);
    }
}
