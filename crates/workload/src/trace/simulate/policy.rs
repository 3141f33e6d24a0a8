//! The policies, and what counts against the capacity.

use std::fmt;
use std::str::FromStr;

use micanite_engine::Eviction;

use super::cache::Stored;

/// Prefix of an engine's policy whose name is also that of a reference.
const ENGINE: &str = "engine:";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The engine with this `--eviction`.
    Engine(Eviction),
    /// Exact LRU.
    Lru,
    /// Exact FIFO.
    Fifo,
    /// Belady's MIN by bytes: no policy that knows only the past does better with objects of one
    /// size.
    Belady,
}

impl Policy {
    pub fn all() -> Vec<Self> {
        let engine = Eviction::ALL.map(Self::Engine);
        let references = [Self::Lru, Self::Fifo, Self::Belady];
        engine.into_iter().chain(references).collect()
    }

    /// Policies that are simulated by default.
    pub fn usual() -> Vec<Self> {
        let engine = [Eviction::S3Fifo, Eviction::Clock, Eviction::ApproximateLru];
        let references = [Self::Lru, Self::Fifo, Self::Belady];
        let engine = engine.into_iter().map(Self::Engine);
        engine.chain(references).collect()
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Engine(eviction @ (Eviction::Lru | Eviction::Fifo)) => {
                return write!(f, "{ENGINE}{}", eviction.name());
            }
            Self::Engine(eviction) => eviction.name(),
            Self::Lru => "lru",
            Self::Fifo => "fifo",
            Self::Belady => "belady",
        };
        f.write_str(name)
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix(ENGINE) {
            return name.parse().map(Self::Engine);
        }
        let named = Self::all().into_iter().find(|policy| policy.to_string() == text);
        named.ok_or_else(|| {
            let names: Vec<String> = Self::all().iter().map(Self::to_string).collect();
            format!("unknown policy '{text}': one of {}", names.join(", "))
        })
    }
}

/// Bytes that count against the capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// All memory, as with `-m`: keys, values, headers, padding, index.
    #[default]
    Real,
    /// Keys and values alone, as figures are published.
    Payload,
}

/// Bytes that an item of the engine takes beside key and value, for the references: its header, and its
/// part of the index (14 to 15 bytes, see `limits.rs` of the engine).
const HEADER_BYTES: u32 = 8;
const EXPIRY_BYTES: u32 = 8;
const INDEX_BYTES: u32 = 15;

impl Accounting {
    /// Bytes of an object in a reference.
    pub(crate) fn bytes(self, stored: &Stored) -> u32 {
        match self {
            Self::Payload => stored.payload_bytes,
            Self::Real => {
                let expiry_bytes = if stored.expiry_s == 0 { 0 } else { EXPIRY_BYTES };
                let padded = stored.payload_bytes.next_multiple_of(8);
                padded + HEADER_BYTES + expiry_bytes + INDEX_BYTES
            }
        }
    }

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Payload => "payload",
        }
    }
}

impl FromStr for Accounting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Real, Self::Payload]
            .into_iter()
            .find(|accounting| accounting.name() == text)
            .ok_or_else(|| format!("'{text}' is neither payload nor real"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_named() {
        for policy in Policy::all() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("lru".parse(), Ok(Policy::Lru));
        assert_eq!("engine:lru".parse(), Ok(Policy::Engine(Eviction::Lru)));
        let s3_fifo = Ok(Policy::Engine(Eviction::S3Fifo));
        assert_eq!("engine:s3-fifo".parse(), s3_fifo);
        assert_eq!("s3-fifo".parse(), s3_fifo);
        assert!("arc".parse::<Policy>().is_err());
        assert_eq!("payload".parse(), Ok(Accounting::Payload));
        assert!("".parse::<Accounting>().is_err());
    }
}
