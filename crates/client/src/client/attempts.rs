//! Attempts to connect, with pauses after those that failed.

use std::time::Instant;

use crate::error::Error;
use crate::local::Pause;

/// Attempts to connect. While a server is silent each takes a deadline, so after one that has failed others
/// fail at once until a pause is over: 10 ms at first, twice as long each time, up to
/// [`crate::Options::dead_for_ns`].
#[derive(Debug, Default)]
pub struct Attempts {
    failed: Option<Failed>,
}

/// The last attempt, which has failed.
#[derive(Debug)]
struct Failed {
    /// Beginning of the first one.
    epoch: Instant,
    pause: Pause,
    /// Time when it had failed.
    at: Instant,
    error: Error,
}

impl Attempts {
    /// Connects. `began` is the time since when the caller waits: it takes the error of an attempt that has
    /// failed since.
    ///
    /// # Errors
    /// That of this attempt, or of the last one.
    pub fn connect<T>(
        &mut self,
        began: Instant,
        dead_for_ns: u64,
        connect: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let now = Instant::now();
        if let Some(failed) = &self.failed
            && (began <= failed.at || !failed.pause.is_over(failed.since_epoch_ns(now)))
        {
            return Err(failed.error.clone());
        }
        let connected = connect();
        let at = Instant::now();
        match &connected {
            Ok(_) => self.failed = None,
            Err(error) => {
                let (epoch, error) = (now, error.clone());
                let first = || Failed { epoch, pause: Pause::new(dead_for_ns), at, error: error.clone() };
                let failed = self.failed.get_or_insert_with(first);
                let [began_ns, at_ns] = [now, at].map(|time| failed.since_epoch_ns(time));
                failed.pause.begin(began_ns, at_ns, false);
                (failed.at, failed.error) = (at, error);
            }
        }
        connected
    }
}

impl Failed {
    fn since_epoch_ns(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.epoch).as_nanos() as u64
    }
}
