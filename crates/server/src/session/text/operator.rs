//! memcached's commands for operators.
//!
//! A command that tunes something that needs no tuning here is accepted. A command that would change
//! something that is fixed at start is refused with a reason.

use micanite_wire::memcache::text::{Operator, reply};

use super::super::Context;
use super::unbatched::say;
use crate::control::memory;
use crate::output::Output;
use crate::telemetry::log::limited;

/// Most microseconds that `lru_crawler sleep` takes.
const SLEEP_US_MAX: u64 = 1_000_000;
/// Least memory that `cache_memlimit` takes, in MiB.
const MEMLIMIT_MIB_MIN: u64 = 8;

const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const BAD_SLEEP: &[u8] = b"CLIENT_ERROR sleep must be one second or less\r\n";
const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
const NO_CRAWLER: &[u8] = b"CLIENT_ERROR what has expired is always removed\r\n";
const NO_SLABS: &[u8] = b"CLIENT_ERROR there are no slab classes to move pages between\r\n";
const NO_LRU: &[u8] = b"CLIENT_ERROR eviction is chosen at start, with --eviction\r\n";
const LIMIT_TOO_SMALL: &[u8] = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
const LIMIT_NOT_SET: &[u8] = b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";

/// Answers a command whose reply is one line.
#[cold]
pub(super) fn answer(operator: Operator, arguments: &[u8], output: &mut Output<'_>, context: &Context<'_>) {
    let words = Words::of(arguments);
    let reply = match operator {
        Operator::CacheMemlimit => cache_memlimit(&words, context),
        Operator::Lru => lru(&words),
        Operator::LruCrawler => lru_crawler(&words),
        Operator::Slabs => slabs(&words),
        Operator::Watch => reply::ERROR,
    };
    say(reply, words.noreply, output);
}

/// First words of a line, without `noreply` at its end.
struct Words<'a> {
    words: [&'a [u8]; 6],
    count: usize,
    noreply: bool,
}

impl<'a> Words<'a> {
    fn of(arguments: &'a [u8]) -> Self {
        let mut words: [&[u8]; 6] = [b""; 6];
        let mut count = 0;
        let mut last: &[u8] = b"";
        for word in split(arguments) {
            if count < words.len() {
                words[count] = word;
            }
            count += 1;
            last = word;
        }
        let noreply = last == b"noreply";
        let count = count - usize::from(noreply);
        Self { words, count, noreply }
    }

    fn as_slice(&self) -> &[&'a [u8]] {
        &self.words[..self.count.min(self.words.len())]
    }
}

/// Returns the words of a text.
pub(in crate::session) fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// Parses a number of 32 bits, without a sign.
pub(in crate::session) fn number(word: &[u8]) -> Option<u64> {
    if !word.first()?.is_ascii_digit() {
        return None;
    }
    let number: u32 = std::str::from_utf8(word).ok()?.parse().ok()?;
    Some(number.into())
}

/// Changes the limit of the memory. The workers follow it in their upkeep.
fn cache_memlimit(words: &Words<'_>, context: &Context<'_>) -> &'static [u8] {
    let Some(mebibytes) = words.as_slice().first().and_then(|word| number(word)) else {
        return reply::ERROR;
    };
    if mebibytes < MEMLIMIT_MIB_MIN {
        return LIMIT_TOO_SMALL;
    }
    match memory::set(context.server, (mebibytes << 20) as usize) {
        Ok(_) => reply::OK,
        Err(reason) => {
            limited!(WARN, "cache_memlimit was refused", mebibytes, reason = %reason);
            LIMIT_NOT_SET
        }
    }
}

fn lru(words: &Words<'_>) -> &'static [u8] {
    match words.as_slice() {
        [b"mode", b"flat" | b"segmented"] | [b"tune", _, _, _, _] => NO_LRU,
        [b"temp_ttl", ttl] if !ttl.is_empty() => match number(ttl.trim_ascii_start()) {
            None if !ttl.starts_with(b"-") => reply::ERROR,
            _ => NO_LRU,
        },
        _ => reply::ERROR,
    }
}

/// Answers `lru_crawler`, except the dumps.
fn lru_crawler(words: &Words<'_>) -> &'static [u8] {
    match words.as_slice() {
        [b"enable"] => reply::OK,
        [b"disable"] => NO_CRAWLER,
        [b"sleep", us] => match number(us) {
            None => BAD_FORMAT,
            Some(SLEEP_US_MAX..) => BAD_SLEEP,
            Some(_) => reply::OK,
        },
        [b"tocrawl", items] => number(items).map_or(BAD_FORMAT, |_| reply::OK),
        [b"crawl", classes] if Classes::of(classes).is_some() => reply::OK,
        [b"crawl", _] => BAD_CLASS,
        _ => reply::ERROR,
    }
}

fn slabs(words: &Words<'_>) -> &'static [u8] {
    match words.as_slice() {
        [b"reassign", from, to] => match (signed(from), signed(to)) {
            (Some(_), Some(_)) => NO_SLABS,
            _ => BAD_FORMAT,
        },
        [b"automove", b"ratio" | b"freeratio" | b"window", _] => reply::OK,
        [b"automove", level] => match number(level) {
            Some(0..=2) => reply::OK,
            Some(_) => reply::ERROR,
            None => BAD_FORMAT,
        },
        _ => reply::ERROR,
    }
}

fn signed(word: &[u8]) -> Option<i32> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Slab classes as `lru_crawler` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Classes {
    /// The class of all items is among them.
    pub all_items: bool,
}

impl Classes {
    /// `all`, or numbers from 1 to 63 with commas. `None`: memcached has no such class.
    pub fn of(word: &[u8]) -> Option<Self> {
        if word == b"all" {
            return Some(Self { all_items: true });
        }
        let mut all_items = false;
        for class in word.split(|byte| *byte == b',').filter(|part| !part.is_empty()) {
            match number(class) {
                Some(class @ 1..=63) => all_items |= class == 1,
                _ => return None,
            }
        }
        Some(Self { all_items })
    }
}
