//! What a caller asks for, and how it ended.

pub use micanite_wire::native::Opcode;
use micanite_wire::native::Status;

/// One operation on one key. Build it with the constructors, change it with the `with_` methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// What to do.
    pub opcode: Opcode,
    /// 1 to 250 bytes; none for no-op.
    pub key: &'a [u8],
    /// The value, of operations that store one.
    pub value: &'a [u8],
    /// Stored with the value.
    pub flags: u32,
    /// Seconds from now until the item ends; 0 = never.
    pub expiry_s: u32,
    /// What increment adds and decrement subtracts, or the CAS value of cas.
    pub argument: u64,
    /// Get and get-and-touch: the completion carries the CAS value.
    pub wants_cas: bool,
}

impl<'a> Operation<'a> {
    const fn new(opcode: Opcode, key: &'a [u8], value: &'a [u8]) -> Self {
        Self {
            opcode,
            key,
            value,
            flags: 0,
            expiry_s: 0,
            argument: 0,
            wants_cas: false,
        }
    }

    /// Nothing: one round trip to the first server.
    pub const fn noop() -> Self {
        Self::new(Opcode::Noop, &[], &[])
    }

    /// The value of a key.
    pub const fn get(key: &'a [u8]) -> Self {
        Self::new(Opcode::Get, key, &[])
    }

    /// The value of a key, with its CAS value.
    pub const fn gets(key: &'a [u8]) -> Self {
        let mut operation = Self::get(key);
        operation.wants_cas = true;
        operation
    }

    /// Stores.
    pub const fn set(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Set, key, value)
    }

    /// Stores if there is no such item.
    pub const fn add(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Add, key, value)
    }

    /// Stores if there is one.
    pub const fn replace(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Replace, key, value)
    }

    /// Stores if the item has this CAS value still.
    pub const fn cas(key: &'a [u8], value: &'a [u8], unique: u64) -> Self {
        let mut operation = Self::new(Opcode::Cas, key, value);
        operation.argument = unique;
        operation
    }

    /// Adds bytes behind the value.
    pub const fn append(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Append, key, value)
    }

    /// Adds bytes before the value.
    pub const fn prepend(key: &'a [u8], value: &'a [u8]) -> Self {
        Self::new(Opcode::Prepend, key, value)
    }

    /// Removes.
    pub const fn delete(key: &'a [u8]) -> Self {
        Self::new(Opcode::Delete, key, &[])
    }

    /// Replaces the expiry.
    pub const fn touch(key: &'a [u8], expiry_s: u32) -> Self {
        Self::new(Opcode::Touch, key, &[]).with_expiry(expiry_s)
    }

    /// The value of a key, whose expiry is replaced.
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

    /// With flags that are stored beside the value.
    pub const fn with_flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    /// Ending so many seconds from now.
    pub const fn with_expiry(mut self, expiry_s: u32) -> Self {
        self.expiry_s = expiry_s;
        self
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Ok,
    /// There is no such item.
    NotFound,
    /// The item has another CAS value.
    Exists,
    /// The condition of add, replace, append or prepend does not hold.
    NotStored,
    /// A store has no space for the item.
    OutOfSpace,
    /// The value is longer than the server takes.
    TooLarge {
        /// The longest that it takes.
        limit_bytes: u32,
    },
    /// The value cannot be incremented.
    NotANumber,
    /// The value is there and does not fit a datagram: ask over the stream. [`crate::Client`] does
    /// that by itself in its blocking calls.
    UseStream,
    /// The server calls the request wrong.
    BadRequest,
    /// The server speaks this version of the protocol and not ours.
    Version(u8),
    /// No reply within the deadline. Whether it was executed is not known.
    TimedOut,
    /// The server no longer remembers the request: whether it was executed is not known.
    Unknown,
    /// The server has not replied to anything for long; see [`crate::Options::dead_after_deadlines`].
    ServerDown,
}

impl Outcome {
    /// The final outcome that a reply's status tells; none if the request is to be sent again.
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
    /// What the caller gave with the operation.
    pub token: u64,
    /// The operation.
    pub opcode: Opcode,
    /// How it ended.
    pub outcome: Outcome,
    /// It was sent more than once: a delete or replace that says "not found" may have found the item
    /// the first time.
    pub resent: bool,
    /// Stored with the value.
    pub flags: u32,
    /// The CAS value, if it was wanted and the item was found.
    pub cas: Option<u64>,
    /// The number, of increment and decrement.
    pub number: u64,
    /// The value, of get and get-and-touch.
    pub value: &'a [u8],
}

impl Completion<'_> {
    /// An ending that no reply tells.
    pub(crate) fn without_reply(token: u64, opcode: Opcode, outcome: Outcome) -> Self {
        Self {
            token,
            opcode,
            outcome,
            resent: false,
            flags: 0,
            cas: None,
            number: 0,
            value: &[],
        }
    }
}
