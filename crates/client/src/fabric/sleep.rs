//! Sleep of a thread that has nothing to do.

use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::connection::Connection;
use super::transport::Transport;

/// Sleeps until a descriptor tells of completions, or at most for a time, which is a nap if some endpoint has
/// no such descriptor, or has something to do at once.
pub(super) fn sleep<T: Transport>(connections: &mut [Connection<T>], at_most: Duration, nap: Duration) {
    let open = connections.iter().filter(|connection| connection.is_open()).count();
    let sleepers = connections.iter_mut().filter_map(Connection::sleeper);
    let mut waited: Vec<_> = sleepers.map(|sleeper| PollFd::new(sleeper, PollFlags::POLLIN)).collect();
    if waited.len() < open || waited.is_empty() {
        std::thread::sleep(at_most.min(nap));
        return;
    }
    // A signal ends it early, which does no harm.
    let _ = ppoll(&mut waited, Some(TimeSpec::from_duration(at_most)), None);
}
