//! The lines, in memcached's form.

use std::fmt::{Arguments, Write};
use std::time::Duration;

use micanite_engine::{Expiry, ItemInfo, KEY_BYTES_MAX};

use crate::output::encode_key;
use crate::telemetry::peer::Peer;

/// The longest line: an encoded key, and numbers with their names.
pub(crate) const LINE_BYTES_MAX: usize = 3 * KEY_BYTES_MAX + 240;

/// A line as it is written.
pub(crate) struct Line {
    bytes: [u8; LINE_BYTES_MAX],
    filled: usize,
}

/// Facts about a store.
pub(crate) struct Stored<'a> {
    pub key: &'a [u8],
    pub status: &'static str,
    pub command: &'static str,
    pub expiry: Option<Expiry>,
    pub value_bytes: Option<usize>,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.filled..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.filled += taken;
        Ok(())
    }
}

impl Line {
    pub fn new(now: Duration, number: u64) -> Self {
        let mut line = Self { bytes: [0; LINE_BYTES_MAX], filled: 0 };
        let (s, us) = (now.as_secs(), now.subsec_micros());
        line.add(format_args!("ts={s}.{us:06} gid={number} type="));
        line
    }

    /// The whole line.
    pub fn end(&mut self) -> &[u8] {
        self.add(format_args!("\n"));
        &self.bytes[..self.filled]
    }

    fn add(&mut self, text: Arguments<'_>) {
        // A line that is too long is cut. There is no other error.
        let _ = self.write_fmt(text);
    }

    fn key(&mut self, key: &[u8]) {
        self.add(format_args!(" key="));
        self.filled += encode_key(key, &mut self.bytes[self.filled..]);
    }

    fn size(&mut self, bytes: Option<usize>) {
        if let Some(bytes) = bytes {
            self.add(format_args!(" size={bytes}"));
        }
    }

    pub fn fetch(&mut self, key: &[u8], found: bool, descriptor: i32, bytes: Option<usize>) {
        self.add(format_args!("item_get"));
        self.key(key);
        let (status, class) = if found { ("found", 1) } else { ("not_found", 0) };
        self.add(format_args!(" status={status} clsid={class} cfd={descriptor}"));
        self.size(if found { bytes } else { Some(0) });
    }

    pub fn store(&mut self, stored: &Stored<'_>, now_s: u32, descriptor: i32) {
        self.add(format_args!("item_store"));
        self.key(stored.key);
        self.add(format_args!(" status={} cmd={}", stored.status, stored.command));
        if let Some(expiry) = stored.expiry {
            let ttl_s = match expiry {
                Expiry::NEVER => 0,
                Expiry(at_s) => (i64::from(at_s) - i64::from(now_s)).max(-1),
            };
            self.add(format_args!(" ttl={ttl_s}"));
        }
        self.add(format_args!(" clsid=1 cfd={descriptor}"));
        self.size(stored.value_bytes);
    }

    pub fn deletion(&mut self, key: &[u8], command: &str) {
        self.add(format_args!("deleted"));
        self.key(key);
        self.add(format_args!(" cmd={command} clsid=1"));
    }

    pub fn eviction(&mut self, item: &ItemInfo<'_>, now_s: u32) {
        self.add(format_args!("eviction"));
        self.key(item.key);
        let ttl_s = match item.expiry {
            Expiry::NEVER => -1,
            Expiry(at_s) => (i64::from(at_s) - i64::from(now_s)).max(-1),
        };
        let fetched = if item.fetched { "yes" } else { "no" };
        self.add(format_args!(" fetch={fetched} ttl={ttl_s}"));
        if item.access_s != 0 {
            let age_s = now_s.saturating_sub(item.access_s);
            self.add(format_args!(" la={age_s}"));
        }
        self.add(format_args!(" clsid=1 size={}", item.value_bytes));
    }

    pub fn connection(&mut self, kind: &str, peer: Peer, reason: Option<&str>, descriptor: i32) {
        match peer {
            Peer::Tcp(address) => {
                self.add(format_args!("{kind} rip={} rport={} transport=tcp", address.ip(), address.port()))
            }
            Peer::Local => self.add(format_args!("{kind} rip=unix rport=0 transport=local")),
        }
        if let Some(reason) = reason {
            self.add(format_args!(" reason={reason}"));
        }
        self.add(format_args!(" cfd={descriptor}"));
    }
}
