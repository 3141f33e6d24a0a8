//! memcached's switches for what clients may do, and its options that mean nothing here.

pub(super) mod extended;

pub use extended::Extended;

use super::options::{Kind, WITHOUT_EFFECT};
use super::{Options, UsageError, Value};

/// Protocol of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// The protocol that the first byte of a connection tells.
    #[default]
    Auto,
    Ascii,
    Binary,
}

impl Binding {
    /// As memcached writes it in `stats settings`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto-negotiate",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        }
    }
}

/// Switches that limit clients, and those that change limits of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    pub binding: Binding,
    /// Refuses `flush_all`.
    pub no_flush: bool,
    /// Refuses dumps and `stats detail`.
    pub no_dump: bool,
    /// Refuses `watch`.
    pub no_watch: bool,
    /// Locks all memory (`-k`).
    pub lock_memory: bool,
    /// Raises the limit of core files (`-r`).
    pub coredumps: bool,
    /// Letters of options that were given and have no effect.
    pub without_effect: Vec<String>,
}

impl Switches {
    /// Returns whether `-C` was given. A client that asks for CAS values gets them all the same.
    pub fn is_cas_disabled(&self) -> bool {
        self.without_effect.iter().any(|letter| letter == "-C")
    }

    pub(super) fn of(options: &Options) -> Result<Self, UsageError> {
        if options.memory_file.is_said() {
            return Err(options.memory_file.wrong("not served: --image keeps what is stored"));
        }
        let mut without_effect = Vec::new();
        for option in options.values().into_iter().filter(|option| option.declared.heading == WITHOUT_EFFECT)
        {
            if has_no_effect(option)? {
                without_effect.extend(option.declared.letter.map(|letter| format!("-{letter}")));
            }
        }
        Ok(Self {
            binding: match options.protocol.choice()? {
                "ascii" => Binding::Ascii,
                "binary" => Binding::Binary,
                _ => Binding::Auto,
            },
            no_flush: options.disable_flush_all.is_on()?,
            no_dump: options.disable_dumping.is_on()?,
            no_watch: options.disable_watch.is_on()?,
            lock_memory: options.lock_memory.is_on()?,
            coredumps: options.enable_coredumps.is_on()?,
            without_effect,
        })
    }
}

/// Returns whether an option was given that does nothing. memcached refuses numbers that are too small.
fn has_no_effect(option: &Value) -> Result<bool, UsageError> {
    match (&option.declared.kind, option.text()) {
        (Kind::Above(least), Some(text)) => match text.parse::<f64>() {
            Ok(number) if number > f64::from(*least) => Ok(true),
            _ => Err(option.wrong(format!("'{text}' is no number above {least}"))),
        },
        _ => option.is_on(),
    }
}
