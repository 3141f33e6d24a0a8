//! Settings of a client over a fabric.

use std::fmt;

use crate::options::OnDead;

const MS: u64 = 1_000_000;

/// Ways of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// A get reads one-sided if the client knows an entry of its key. Otherwise it asks by a message, whose
    /// reply brings value and entry.
    #[default]
    InnerCache,
    /// The same rules, for a baseline whose cache area holds everything, and whose caller lets the client
    /// learn all entries first.
    OneSided,
    /// All gets are messages, and ask for no entry.
    TwoSided,
}

/// Settings of a client over a fabric. [`FabricOptions::default`] suits most.
#[derive(Clone)]
pub struct FabricOptions {
    /// Way of reading.
    pub reads: Reads,
    /// Number of entries that a client keeps per server. Their memory (32 bytes each) grows with use.
    pub entries_max: usize,
    /// User of the login, for servers whose URL names none. Empty: no login.
    pub user: String,
    /// Password of the login.
    pub password: String,
    /// Deadline of an operation, at most 60 s. Without a reply by then it ends as
    /// [`crate::Outcome::TimedOut`].
    pub deadline_ns: u64,
    /// Time without the reply to a message after which the client connects anew, and sends again. It begins
    /// when the message has left. Long messages have more: 1 us per byte, up to the deadline.
    pub silent_ns: u64,
    /// Time until a server that could not be reached is tried again, at least 10 ms.
    pub dead_for_ns: u64,
    /// Treatment of a dead server's keys.
    pub on_dead: OnDead,
    /// Reports of one-sided reads to the server, which then knows what is in use.
    pub history: bool,
}

impl Default for FabricOptions {
    fn default() -> Self {
        Self {
            reads: Reads::default(),
            entries_max: 1 << 20,
            user: String::new(),
            password: String::new(),
            deadline_ns: 2_000 * MS,
            silent_ns: 1_000 * MS,
            dead_for_ns: 1_000 * MS,
            on_dead: OnDead::FailFast,
            history: true,
        }
    }
}

impl fmt::Debug for FabricOptions {
    /// Leaves out the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FabricOptions")
            .field("reads", &self.reads)
            .field("entries_max", &self.entries_max)
            .field("user", &self.user)
            .field("deadline_ns", &self.deadline_ns)
            .field("silent_ns", &self.silent_ns)
            .field("dead_for_ns", &self.dead_for_ns)
            .field("on_dead", &self.on_dead)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}
