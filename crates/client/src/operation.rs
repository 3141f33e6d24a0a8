//! Operations and their results.

pub use micanite_wire::native::Opcode;
use micanite_wire::native::Status;
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest expiry that memcached takes for seconds from now. A larger one is a date.
const RELATIVE_EXPIRY_S_MAX: u32 = 30 * 24 * 60 * 60;

/// One operation on one key. Build it with the constructors, change it with the `with_` methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// Kind of the operation.
    pub opcode: Opcode,
    /// 1 to 250 bytes; empty for no-op.
    pub key: &'a [u8],
    /// Value to store.
    pub value: &'a [u8],
    /// Flags to store with the value.
    pub flags: u32,
    /// Seconds from now until the item expires, not after second 2^32-2 of Unix time; 0 = never.
    pub expiry_s: u32,
    /// Amount of increment and decrement, or the CAS value of cas.
    pub argument: u64,
    /// Get and get-and-touch: the completion carries the CAS value.
    pub wants_cas: bool,
}

impl<'a> Operation<'a> {
    const fn new(opcode: Opcode, key: &'a [u8], value: &'a [u8]) -> Self {
        Self { opcode, key, value, flags: 0, expiry_s: 0, argument: 0, wants_cas: false }
    }

    /// Creates a no-op: one round trip to the first server.
    pub const fn noop() -> Self {
        Self::new(Opcode::Noop, &[], &[])
    }

    /// Gets the value of a key.
    pub const fn get(key: &'a [u8]) -> Self {
        Self::new(Opcode::Get, key, &[])
    }

    /// Gets the value of a key with its CAS value.
    pub const fn gets(key: &'a [u8]) -> Self {
        let mut operation = Self::get(key);
        operation.wants_cas = true;
        operation
    }

    /// Stores a value.
    pub const fn set(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Set, key, value)
    }

    /// Stores if there is no such item.
    pub const fn add(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Add, key, value)
    }

    /// Stores if there is such an item.
    pub const fn replace(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Replace, key, value)
    }

    /// Stores if the item still has this CAS value.
    pub const fn cas(key: &'a [u8], value: &'a [u8], unique: u64) -> Self {
        let mut operation = Self::new(Opcode::Cas, key, value);
        operation.argument = unique;
        operation
    }

    /// Appends bytes to the value.
    pub const fn append(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Append, key, value)
    }

    /// Prepends bytes to the value.
    pub const fn prepend(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Prepend, key, value)
    }

    /// Removes an item.
    pub const fn delete(key: &'a [u8]) -> Self {
        Self::new(Opcode::Delete, key, &[])
    }

    /// Replaces the expiry.
    pub const fn touch(key: &'a [u8], expiry_s: u32) -> Self {
        Self::new(Opcode::Touch, key, &[]).with_expiry(expiry_s)
    }

    /// Gets the value of a key and replaces its expiry.
    pub const fn get_and_touch(key: &'a [u8], expiry_s: u32) -> Self {
        Self::new(Opcode::GetAndTouch, key, &[]).with_expiry(expiry_s)
    }

    /// Adds to a number.
    pub const fn increment(key: &'a [u8], delta: u64) -> Self {
        let mut operation = Self::new(Opcode::Increment, key, &[]);
        operation.argument = delta;
        operation
    }

    /// Subtracts from a number, not below 0.
    pub const fn decrement(key: &'a [u8], delta: u64) -> Self {
        let mut operation = Self::new(Opcode::Decrement, key, &[]);
        operation.argument = delta;
        operation
    }

    /// Sets the flags to store with the value.
    pub const fn with_flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    /// Sets the expiry in seconds from now.
    pub const fn with_expiry(mut self, expiry_s: u32) -> Self {
        self.expiry_s = expiry_s;
        self
    }

    /// Returns whether the expiry is a time that servers can tell. The last one of 32 bits means -1.
    #[inline]
    pub(crate) fn expires_in_time(&self) -> bool {
        !self.opcode.has_expiry() || memcached_expiry(self.expiry_s) < u64::from(u32::MAX)
    }

    /// Returns whether it leaves everything as it is: then it does not matter to the caller whether it was
    /// executed.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.opcode, Opcode::Get | Opcode::Noop)
    }

    /// Returns whether executing it twice is the same to the caller as executing it once.
    pub(crate) fn may_repeat(&self) -> bool {
        matches!(self.opcode, Opcode::Get | Opcode::GetAndTouch | Opcode::Noop)
    }
}

/// Length of the longest value that memcached's protocols can announce. A server takes a longer one for
/// further requests.
pub(crate) const TEXT_VALUE_BYTES_MAX: usize = i32::MAX as usize - 2;

/// Converts an expiry in seconds from now to memcached's form.
#[inline]
pub(crate) fn memcached_expiry(expiry_s: u32) -> u64 {
    if expiry_s <= RELATIVE_EXPIRY_S_MAX {
        return u64::from(expiry_s);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs()) + u64::from(expiry_s)
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation succeeded.
    Ok,
    /// There is no such item.
    NotFound,
    /// The item has another CAS value.
    Exists,
    /// The condition of add, replace, append or prepend does not hold.
    NotStored,
    /// The store has no space for the item.
    OutOfSpace,
    /// The value exceeds the server's limit.
    TooLarge {
        /// The server's limit.
        limit_bytes: u32,
    },
    /// The value cannot be incremented.
    NotANumber,
    /// The value exists and does not fit a datagram: request it over the stream. The blocking calls
    /// of [`crate::Client`] do so.
    UseStream,
    /// The server rejects the request.
    BadRequest,
    /// The server speaks this other version of the protocol.
    Version(u8),
    /// No reply arrived within the deadline, or before the server counted as dead. It is unknown whether the
    /// operation was executed.
    TimedOut,
    /// The server no longer remembers the request: it is unknown whether it was executed.
    Unknown,
    /// The server has not replied to anything for [`crate::Options::dead_after_deadlines`], and the operation
    /// was not sent: it was not executed.
    ServerDown,
}

impl Outcome {
    /// Converts the status of a reply to an outcome; `None` if the request has to be sent again.
    pub(crate) fn of(status: Status, limit_bytes: u32) -> Option<Self> {
        Some(match status {
            Status::Ok => Self::Ok,
            Status::NotFound => Self::NotFound,
            Status::Exists => Self::Exists,
            Status::NotStored => Self::NotStored,
            Status::OutOfSpace => Self::OutOfSpace,
            Status::TooLarge => Self::TooLarge { limit_bytes },
            Status::NotANumber => Self::NotANumber,
            Status::UseStream => Self::UseStream,
            Status::BadRequest | Status::Version => Self::BadRequest,
            Status::Forgotten => Self::Unknown,
            Status::Moved | Status::SlowDown | Status::Unproven | Status::NoRoom => return None,
        })
    }
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The token given at the submission.
    pub token: u64,
    /// Kind of the operation.
    pub opcode: Opcode,
    /// Result of the operation.
    pub outcome: Outcome,
    /// The operation was sent more than once: a delete or replace that returned "not found" may
    /// have found the item the first time.
    pub resent: bool,
    /// A one-sided read brought the value, without the server's workers.
    pub one_sided: bool,
    /// Flags stored with the value.
    pub flags: u32,
    /// CAS value, if it was requested and the item was found.
    pub cas: Option<u64>,
    /// Result of increment and decrement.
    pub number: u64,
    /// Value of get and get-and-touch.
    pub value: &'a [u8],
}

impl Completion<'_> {
    /// Creates a completion without a reply.
    pub(crate) fn without_reply(token: u64, opcode: Opcode, outcome: Outcome) -> Self {
        Self {
            token,
            opcode,
            outcome,
            resent: false,
            one_sided: false,
            flags: 0,
            cas: None,
            number: 0,
            value: &[],
        }
    }
}
