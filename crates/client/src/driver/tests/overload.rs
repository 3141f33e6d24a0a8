//! Overloads a server: goodput, loss and shares, in simulated time.

use super::fake::Fake;
use super::options;
use crate::driver::Driver;
use crate::operation::{Operation, Outcome};
use crate::options::{Batch, Options, ServerAddress};
use micanite_wire::native::PartitionAccess;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The server processes a datagram every tick.
const TICK_NS: u64 = 4_000;
const TICKS_PER_S: u64 = 1_000_000_000 / TICK_NS;
/// Length of the kernel's queue in front of the server.
const QUEUE: usize = 300;
/// Delay in one direction.
const DELAY_TICKS: u64 = 10;
/// The server's interval of the share, and the duration for which its replies report it.
const SHARE_TICKS: u64 = 10_000_000 / TICK_NS;
const TOLD_TICKS: u64 = 100_000_000 / TICK_NS;

type OnTheWay = VecDeque<(u64, usize, Vec<u8>)>;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    arrived: u64,
    lost: u64,
    answered: [u64; 2],
}

struct Overload {
    drivers: Vec<Driver>,
    fake: Fake,
    server: SocketAddr,
    to_server: OnTheWay,
    to_clients: OnTheWay,
    queue: VecDeque<(usize, Vec<u8>)>,
    tick: u64,
    told_until: u64,
    share: Count,
    count: Count,
}

impl Overload {
    fn new(options: &Options) -> Self {
        let fake = Fake::new("10.0.0.1:1000", 1, 1, PartitionAccess::Erew);
        let address = ServerAddress { address: fake.base, name: String::new(), weight: 1 };
        let driver = |seed| Driver::new(options.clone(), std::slice::from_ref(&address), seed);
        Self {
            drivers: vec![driver(1), driver(2)],
            server: fake.base,
            fake,
            to_server: VecDeque::new(),
            to_clients: VecDeque::new(),
            queue: VecDeque::new(),
            tick: 1,
            told_until: 0,
            share: Count::default(),
            count: Count::default(),
        }
    }

    /// Simulates a second in which each client submits so many requests per tick, if they are
    /// accepted.
    fn second(&mut self, each: f64) -> Count {
        self.count = Count::default();
        let mut due = 0.0;
        for _ in 0..TICKS_PER_S {
            due += each;
            let requests = due as u64;
            due -= requests as f64;
            self.tick(requests);
        }
        self.count
    }

    fn tick(&mut self, requests: u64) {
        self.tick += 1;
        let now_ns = self.tick * TICK_NS;
        for (client, driver) in self.drivers.iter_mut().enumerate() {
            for _ in 0..requests {
                let _pushed_back = driver.submit(now_ns, &Operation::get(b"key"), 0);
            }
            let arrives = self.tick + DELAY_TICKS;
            driver.transmit(now_ns, |_, bytes| {
                self.to_server.push_back((arrives, client, bytes.to_vec()));
                true
            });
        }
        self.arrive();
        self.serve();
        let answered = &mut self.count.answered;
        while self.to_clients.front().is_some_and(|first| first.0 <= self.tick) {
            let Some((_, client, bytes)) = self.to_clients.pop_front() else {
                break;
            };
            self.drivers[client].on_datagram(now_ns, &bytes, self.server, &mut |ended| {
                answered[client] += u64::from(ended.outcome == Outcome::NotFound);
            });
        }
        for driver in &mut self.drivers {
            driver.on_time(now_ns, &mut |_| {});
        }
    }

    fn arrive(&mut self) {
        if self.tick.is_multiple_of(SHARE_TICKS) {
            self.share = Count::default();
        }
        while self.to_server.front().is_some_and(|first| first.0 <= self.tick) {
            let Some((_, client, bytes)) = self.to_server.pop_front() else {
                break;
            };
            let is_lost = self.queue.len() >= QUEUE;
            for count in [&mut self.count, &mut self.share] {
                count.arrived += 1;
                count.lost += u64::from(is_lost);
            }
            if is_lost {
                let share = self.share.lost * u64::from(u16::MAX) / self.share.arrived;
                self.fake.pressure = share.max(1) as u16;
                self.told_until = self.tick + TOLD_TICKS;
                continue;
            }
            self.queue.push_back((client, bytes));
        }
    }

    fn serve(&mut self) {
        if self.tick >= self.told_until {
            self.fake.pressure = 0;
        }
        let Some((client, bytes)) = self.queue.pop_front() else {
            return;
        };
        if let Some(reply) = self.fake.answer(self.server, &bytes) {
            self.to_clients.push_back((self.tick + DELAY_TICKS, client, reply));
        }
    }
}

/// Each of two clients requests as much as the server can do.
#[test]
fn goodput_stays_at_the_peak_under_double_load() {
    let mut overload = Overload::new(&Options { batch: Batch::Fixed(1), ..options() });
    assert!(overload.second(1.0).lost > 0, "there is something to adapt to");
    overload.second(1.0);
    for _ in 0..3 {
        let Count { arrived, lost, answered } = overload.second(1.0);
        let goodput = answered[0] + answered[1];
        let said = format!("{arrived} arrived, {lost} lost, {answered:?} answered");
        assert!(goodput * 10 > TICKS_PER_S * 9, "{said}");
        assert!(lost * 100 < arrived, "{said}");
        assert!(answered[0].abs_diff(answered[1]) * 5 < goodput / 2, "{said}");
    }
    let pushed_back = overload.drivers[0].counters().pushed_back;
    assert!(pushed_back > 2 * TICKS_PER_S, "callers are told");
}

/// The same with full datagrams: additional requests in a datagram cost this server nothing.
#[test]
fn overloaded_clients_gather_more_requests_per_datagram() {
    let mut overload = Overload::new(&options());
    overload.second(1.5);
    let count = overload.second(1.5);
    let goodput = count.answered[0] + count.answered[1];
    assert!(goodput * 100 > 3 * TICKS_PER_S * 98, "{count:?}");
    assert!(count.lost * 100 < count.arrived, "{count:?}");
}
