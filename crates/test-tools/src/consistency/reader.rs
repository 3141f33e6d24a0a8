//! Readers over memcached's UDP, with many requests in flight. They check every byte that comes back.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};
use micanite_workload::Random;

use super::Report;
use super::history::{Before, History};
use super::reply::{self, Item};
use super::writer::now_s;
use crate::Result;

/// Requests in flight; the number of a request is its place here and how often that was taken.
const WINDOW: usize = 128;
const KEYS_MAX: usize = 4;
const PAYLOAD_BYTES: usize = 1472;
/// Number of keys, the writers' favourites, that take half of the requests.
const HOT: u64 = 16;
/// Requests are sent when so many can be.
const BURST: usize = 16;
/// Without a reply for so long, what is in flight is lost.
const SILENCE: Duration = Duration::from_secs(2);
/// Looks in vain, and the pause after so many of them: what the kernel passes on needs a core, too.
const IDLE_MAX: u32 = 50;
const PAUSE: Duration = Duration::from_micros(100);
/// A server that has gone answers nothing more.
const LOST_MAX: u64 = 1000;
/// One request of so many wants CAS values, which the next write must then change.
const GETS: u64 = 64;

/// A request in flight.
#[derive(Default)]
struct Slot {
    number: u16,
    keys: [(u32, Before); KEYS_MAX],
    count: usize,
    has_cas: bool,
    /// The pieces of a reply of several datagrams.
    pieces: Vec<Vec<u8>>,
}

/// Shared state of the readers.
pub(super) struct Reading<'a> {
    pub server: SocketAddr,
    pub names: &'a [Vec<u8>],
    pub history: &'a History,
    pub replies: &'a AtomicU64,
    pub replies_wanted: u64,
    /// Writes so far, and writes before the end.
    pub writes: &'a AtomicU64,
    pub writes_wanted: u64,
    /// Set when a writer has failed.
    pub ended: &'a AtomicBool,
}

impl Reading<'_> {
    /// Tells whether there is something left to be looked at.
    fn goes_on(&self) -> bool {
        let is_short = |count: &AtomicU64, wanted| count.load(Ordering::Relaxed) < wanted;
        (is_short(self.replies, self.replies_wanted) || is_short(self.writes, self.writes_wanted))
            && !self.ended.load(Ordering::Relaxed)
    }

    /// Asks until all of them have enough replies, or something is wrong.
    pub fn run(&self, seed: u64) -> Result<Report> {
        let options = UdpOptions { receive_buffer_bytes: 4 << 20, ..UdpOptions::default() };
        let any: SocketAddr = if self.server.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
        let socket = UdpSocket::bind(any, &options)?;
        let mut receiver = Receiver::new(false, PAYLOAD_BYTES);
        let mut sender = Sender::new(false, PAYLOAD_BYTES);
        let mut random = Random::of_stream(seed, 1 << 32);
        let mut slots: Vec<_> = (0..WINDOW).map(|_| Slot::default()).collect();
        let mut free: Vec<_> = (0..WINDOW).collect();
        let mut report = Report::default();
        let (mut heard, mut idle) = (Instant::now(), 0);
        while self.goes_on() && report.first_wrong.is_empty() {
            if free.len() >= BURST {
                let second = now_s();
                for place in free.drain(..) {
                    let slot = &mut slots[place];
                    self.draw(slot, place, second, &mut random);
                    let room = sender.begin(self.server).ok_or("the socket takes no more requests")?;
                    let bytes = self.write(slot, room);
                    sender.commit(bytes);
                    if sender.is_full() {
                        sender.send(&socket)?;
                    }
                }
                sender.send(&socket)?;
            }
            if receiver.recv(&socket)? == 0 {
                if heard.elapsed() > SILENCE {
                    report.lost += (WINDOW - free.len()) as u64;
                    if report.lost > LOST_MAX {
                        return Err("too many requests have no reply".into());
                    }
                    free = (0..WINDOW).collect();
                    heard = Instant::now();
                }
                idle += 1;
                if idle > IDLE_MAX {
                    std::thread::sleep(PAUSE);
                }
                std::thread::yield_now();
                continue;
            }
            (heard, idle) = (Instant::now(), 0);
            let before = report.replies;
            for datagram in receiver.datagrams() {
                if let Some(place) = self.take(datagram.bytes, &mut slots, &mut report) {
                    free.push(place);
                }
            }
            self.replies.fetch_add(report.replies - before, Ordering::Relaxed);
        }
        Ok(report)
    }

    /// Fills a slot with the next request.
    fn draw(&self, slot: &mut Slot, place: usize, second: u64, random: &mut Random) {
        let keys = u64::from(self.history.keys());
        slot.number = (slot.number & !(WINDOW as u16 - 1)).wrapping_add(WINDOW as u16) | place as u16;
        slot.count = if random.below(8) == 0 { 2 + random.below(3) as usize } else { 1 };
        slot.has_cas = random.below(GETS) == 0;
        slot.pieces.clear();
        for number in 0..slot.count {
            let key = match random.below(2) {
                0 => random.below(HOT.min(keys)),
                _ => random.below(keys),
            } as u32;
            slot.keys[number] = (key, self.history.before(key, second));
        }
    }

    fn write(&self, slot: &Slot, room: &mut [u8]) -> usize {
        let mut bytes = 0;
        let mut push = |piece: &[u8]| {
            room[bytes..bytes + piece.len()].copy_from_slice(piece);
            bytes += piece.len();
        };
        push(&slot.number.to_be_bytes());
        push(&[0, 0, 0, 1, 0, 0]);
        push(if slot.has_cas { b"gets" } else { b"get" });
        for (key, _) in &slot.keys[..slot.count] {
            push(b" ");
            push(&self.names[*key as usize]);
        }
        push(b"\r\n");
        bytes
    }

    /// Looks at a datagram: the place of the request that has been answered with it.
    fn take(&self, datagram: &[u8], slots: &mut [Slot], report: &mut Report) -> Option<usize> {
        let Some((head, bytes)) = datagram.split_first_chunk::<8>() else {
            report.wrong(format!("a datagram of {} bytes", datagram.len()));
            return None;
        };
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (number, sequence, total) = (word(0), usize::from(word(2)), usize::from(word(4)));
        let place = usize::from(number) % WINDOW;
        let slot = &mut slots[place];
        if slot.number != number {
            report.late += 1;
            return None;
        }
        if total == 1 {
            self.judge(slot, bytes, report);
        } else {
            slot.pieces.resize(total.max(sequence + 1), Vec::new());
            slot.pieces[sequence] = bytes.to_vec();
            if slot.pieces.iter().any(Vec::is_empty) {
                return None;
            }
            report.long_replies += 1;
            let whole = slot.pieces.concat();
            self.judge(slot, &whole, report);
        }
        report.replies += 1;
        // A copy of it would not be of this request any more.
        slot.number = slot.number.wrapping_add(WINDOW as u16);
        Some(place)
    }

    fn judge(&self, slot: &Slot, bytes: &[u8], report: &mut Report) {
        let mut items = match reply::parse(bytes, slot.has_cas) {
            Ok(items) => items.into_iter().peekable(),
            Err(why) => return report.wrong(format!("{why}: {}", bytes.escape_ascii())),
        };
        for (key, before) in &slot.keys[..slot.count] {
            let name = &self.names[*key as usize];
            let of_key = |item: &Item<'_>| item.name == &name[..];
            let wrong = match items.next_if(of_key) {
                Some(item) => {
                    report.hits += 1;
                    report.value_bytes += item.value.len() as u64;
                    self.history.judge_value(*key, before, item.value, item.flags).err()
                }
                None => match self.history.judge_absence(*key, before) {
                    Ok(absence) => {
                        *report.misses.entry(absence).or_default() += 1;
                        None
                    }
                    Err(wrong) => Some(wrong),
                },
            };
            if let Some(wrong) = wrong {
                report.wrong(format!("key {key} ({}): {wrong}", name.escape_ascii()));
            }
        }
        if let Some(item) = items.next() {
            report.wrong(format!("a reply without a request: {}", item.name.escape_ascii()));
        }
    }
}
