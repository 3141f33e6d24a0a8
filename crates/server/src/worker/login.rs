//! Logins (`-Y`, `-S`): whoever does not say who it is in time is closed, so that silent strangers do not take
//! the connections of clients.

use micanite_net::Streams;

use super::Worker;
use crate::limits::{LOGIN_MS_MAX, LOGINS_CHECK_MS};

impl<P: Streams> Worker<P> {
    /// Closes connections whose clients are not known in time. A client that was known once may take its time
    /// when it says anew who it is.
    pub(super) fn close_late_logins(&mut self, now_ms: u64) {
        if self.server.auth.is_none() || now_ms - self.logins_checked_ms < LOGINS_CHECK_MS {
            return;
        }
        self.logins_checked_ms = now_ms;
        let before_ms = now_ms.saturating_sub(LOGIN_MS_MAX);
        self.close_where(
            |slot| slot.opened_ms <= before_ms && slot.connection.never_authenticated(),
            |worker| worker.counters().auth_timeouts.add(1),
        );
    }
}
