//! Attaches a link to its server again: after its death, after a lost stream, in the child of a fork.

use std::time::{Duration, Instant};

use super::attach::{Attached, attach};
use super::link::LocalLink;
use crate::error::Error;
use crate::operation::Outcome;

/// Time in which a server frees the place of a client that has let its memory go.
const PLACE_WAIT: Duration = Duration::from_millis(100);
/// Pause between two attempts to get that place.
const PLACE_PAUSE: Duration = Duration::from_millis(1);
/// Least time for an attempt to attach.
const ATTACH_NS_MIN: u64 = 1_000_000;

impl LocalLink {
    /// Begins a batch: once the server is down for one of its operations, it is not tried for the others.
    pub(crate) fn begin_batch(&mut self) {
        self.is_down_for_batch = Some(false);
    }

    /// Ends a batch.
    pub(crate) fn end_batch(&mut self) {
        self.is_down_for_batch = None;
    }

    /// Runs a call, which ends within one deadline, however often it asks.
    pub(crate) fn within_deadline<R>(&mut self, run: impl FnOnce(&mut Self) -> R) -> R {
        self.until(self.now_ns().saturating_add(self.deadline_ns), run)
    }

    /// Runs calls that end by a time of the caller, whose wait for the link counts as well.
    #[cfg(feature = "async")]
    pub(crate) fn by<R>(&mut self, end: Instant, run: impl FnOnce(&mut Self) -> R) -> R {
        let until_ns = end.saturating_duration_since(self.clock).as_nanos() as u64;
        self.until(until_ns, run)
    }

    fn until<R>(&mut self, until_ns: u64, run: impl FnOnce(&mut Self) -> R) -> R {
        let outer_ns = self.call_until_ns;
        self.call_until_ns = outer_ns.min(until_ns);
        let result = run(self);
        self.call_until_ns = outer_ns;
        result
    }

    /// Returns whether the call that is running may ask once more.
    pub(crate) fn has_time(&self) -> bool {
        self.now_ns() < self.call_until_ns
    }

    /// Attaches if there is no stream, if the server has died, or after a fork. Returns whether it attached
    /// just now. The memory of a server that lives is read on, even if it does not answer.
    pub(super) fn ensure_attached(&mut self) -> Result<bool, Error> {
        // The server may have closed it, such as an idle one: nothing is lost yet.
        if let Some(stream) =
            self.stream.as_ref().filter(|stream| stream.in_flight() == 0 && stream.is_closed())
        {
            if stream.is_refused() {
                let now_ns = self.now_ns();
                self.pause.begin(now_ns, now_ns, true);
            }
            self.end_stream(Outcome::Unknown);
        }
        let is_valid = match (&self.reading, &self.stream) {
            (Some(reading), Some(_)) => reading.is_valid(),
            (None, Some(stream)) => stream.is_of_this_process(),
            (_, None) => false,
        };
        if is_valid {
            return Ok(false);
        }
        self.end_stream(Outcome::Unknown);
        self.reading.take_if(|reading| !reading.is_valid());
        if self.is_down_for_batch == Some(true) || !self.pause.is_over(self.now_ns()) {
            self.is_down_for_batch = self.is_down_for_batch.map(|_| true);
            return Err(self.unreachable());
        }
        let attached = self.attach();
        if attached.is_err() {
            // The pause may be over before the next operation of the batch asks.
            self.is_down_for_batch = self.is_down_for_batch.map(|_| true);
        }
        attached.map(|()| true)
    }

    pub(super) fn attach(&mut self) -> Result<(), Error> {
        let began_ns = self.now_ns();
        let mut attached = self.attach_once();
        // The memory may have the place that is missing.
        if is_full(&attached) && self.reading.take().is_some() {
            attached = self.attach_at_own_place();
        }
        self.finish(began_ns, attached)
    }

    /// Attaches where the memory that somebody has let go had the place that was missing.
    pub(super) fn attach_without_memory(&mut self) {
        let began_ns = self.now_ns();
        let attached = self.attach_at_own_place();
        // The next call fails by the same error.
        let _ = self.finish(began_ns, attached);
    }

    /// Attaches when the server has seen that the memory was let go, unless another client is faster.
    fn attach_at_own_place(&self) -> Result<Attached, Error> {
        let end = Instant::now() + PLACE_WAIT;
        loop {
            let attached = self.attach_once();
            if !is_full(&attached) || Instant::now() >= end || !self.has_time() {
                return attached;
            }
            std::thread::sleep(PLACE_PAUSE);
        }
    }

    fn attach_once(&self) -> Result<Attached, Error> {
        let left_ns = self.call_until_ns.saturating_sub(self.now_ns());
        attach(&self.url, Duration::from_nanos(left_ns.clamp(ATTACH_NS_MIN, self.deadline_ns)))
    }

    fn finish(&mut self, began_ns: u64, attached: Result<Attached, Error>) -> Result<(), Error> {
        self.lacks_place = is_full(&attached);
        let (reading, stream) = attached.inspect_err(|_| {
            self.pause.begin(began_ns, self.clock.elapsed().as_nanos() as u64, self.lacks_place);
        })?;
        let lacks_connection = stream.is_none();
        (self.reading, self.stream) = (Some(reading), stream);
        (self.attach_began_ns, self.attached_at_ns) = (began_ns, self.now_ns());
        self.pause.let_in();
        if lacks_connection {
            self.pause.begin(began_ns, self.attached_at_ns, true);
        }
        self.counters.attached += 1;
        Ok(())
    }
}

/// Returns whether the server had no place for another client (`--local-clients`).
fn is_full(attached: &Result<Attached, Error>) -> bool {
    matches!(attached, Err(Error::ServerFull { .. }))
}
