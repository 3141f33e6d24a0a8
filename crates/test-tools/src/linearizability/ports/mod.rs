//! Ports of a server.

mod datagrams;
mod native;
mod text;

use std::fmt;
use std::str::FromStr;

use micanite_client::{Link, Reads};
use serde::Serialize;

use self::native::Native;
use super::operation::{Action, Found};

/// Protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// memcached's text protocol over TCP.
    Text,
    /// memcached's text protocol over UDP: GETs alone.
    Udp,
    /// The native protocol over UDP.
    Native,
    /// The native protocol over a fabric, with one-sided reads.
    OneSided,
    /// The same, without them.
    TwoSided,
}

/// A port, as the command line names it: `KIND=ADDRESS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortName {
    pub kind: Kind,
    pub address: String,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub name: &'a [u8],
    pub action: Action,
    pub value: &'a [u8],
    pub flags: u32,
    pub expiry_s: u32,
    /// CAS value for a cas.
    pub unique: u64,
    pub wants_unique: bool,
}

/// Reply to a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply {
    /// None: a value was found, `value` has it.
    pub found: Option<Found>,
    pub value: Vec<u8>,
    pub flags: u32,
    pub unique: u64,
    /// The request was sent more than once. A copy may take effect later.
    pub resent: bool,
    /// A one-sided read brought the value.
    pub one_sided: bool,
}

/// Reason why there are no replies.
#[derive(Debug)]
pub(super) enum Failure {
    /// The port is to be opened again; the requests may take effect.
    Lost,
    /// The server replied something else than its protocol allows.
    Wrong(String),
}

pub(super) type Outcome = Result<(), Failure>;

/// A port that is open.
pub(super) trait Port {
    /// Executes requests, which may overtake each other. The replies are empty before.
    fn call(&mut self, requests: &[Request<'_>], replies: &mut [Reply]) -> Outcome;
}

impl Kind {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Text, "text"),
        (Self::Udp, "udp"),
        (Self::Native, "native"),
        (Self::OneSided, "one-sided"),
        (Self::TwoSided, "two-sided"),
    ];

    /// Returns whether the port takes nothing but GETs.
    pub fn reads_only(self) -> bool {
        self == Self::Udp
    }

    /// Returns whether a client sends several requests together.
    pub fn bursts(self) -> bool {
        !matches!(self, Self::Text | Self::Udp)
    }

    /// Returns whether the port takes flush_all.
    pub fn flushes(self) -> bool {
        self == Self::Text
    }

    /// Returns the length of the longest value that the port stores.
    pub fn value_bytes_max(self) -> usize {
        match self {
            Self::Native => 1024,
            _ => usize::MAX,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name);
        to.write_str(name)
    }
}

impl FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, address) = text.split_once('=').ok_or("a port is KIND=ADDRESS")?;
        let known = Kind::ALL.iter().find(|(_, name)| *name == kind);
        let (kind, _) =
            known.ok_or_else(|| format!("{kind} is none of text, udp, native, one-sided, two-sided"))?;
        Ok(Self { kind: *kind, address: address.to_owned() })
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}={}", self.kind, self.address)
    }
}

impl PortName {
    /// Opens the port.
    pub fn open(&self) -> crate::Result<Box<dyn Port>> {
        Ok(match self.kind {
            Kind::Text => Box::new(text::Text::open(self.address.parse()?)?),
            Kind::Udp => Box::new(datagrams::Datagrams::open(self.address.parse()?)?),
            Kind::Native => Box::new(Native::<Link>::open(&self.address)?),
            Kind::OneSided => Box::new(Native::open_fabric(&self.address, Reads::InnerCache)?),
            Kind::TwoSided => Box::new(Native::open_fabric(&self.address, Reads::TwoSided)?),
        })
    }
}
