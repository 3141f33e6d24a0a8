//! Runs the program while the engine's writers overwrite, delete, evict, flush and split at full
//! speed. Each answer has to be a complete value that the key had at that time.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use micanite_engine::{
    Condition, Config, Eviction, Expiry, Operation, Outcome, ReplySink, Request, Semantics, ValueMeta, Worker,
};

use crate::program::Program;

use super::fixture::{CLIENT, Fixture, PASS, SENT, SERVER, can_load, datagram, now_s, payload};

const RUNS: u64 = 100_000;
/// Attempts to store. Each yields thousands of times to the other writer.
const ATTEMPTS_MAX: usize = 1000;
const KEYS: usize = 4000;
const HOT_KEYS: usize = 8;
const FRAME: &[u8] = b"\x12\x34\0\0\0\x01\0\0";

/// Writes to a key. Each has a number, which its value contains. A delete has a number, too.
#[derive(Default)]
struct Log {
    begun: AtomicU64,
    done: AtomicU64,
}

#[derive(Clone, Copy)]
struct Case {
    config: fn() -> Config,
    /// Only a delete may remove an item.
    is_store: bool,
    flushes: bool,
}

struct LastOutcome(Outcome);

impl ReplySink for LastOutcome {
    fn reserve(&mut self, _: usize, _: ValueMeta) -> Option<&mut [u8]> {
        None
    }
    fn rollback(&mut self, _: usize) {}
    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.0 = outcome;
    }
}

fn name(key: usize) -> String {
    format!("key-{key:x}{}", "k".repeat(key % 50))
}

/// Usually as long as the previous value, so that it is written in place.
fn value(key: usize, number: u64) -> Vec<u8> {
    let words = match number / 4 % 8 {
        0 => 1,
        1 => 140,
        other => 1 + (other * 17 + key as u64) % 60,
    };
    ((key as u64) << 40 | number).to_le_bytes().repeat(words as usize)
}

/// Half of all operations hit a few keys, to provoke conflicts.
fn draw(random: &mut u64) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let among = if *random >> 60 & 1 == 0 { HOT_KEYS } else { KEYS };
    *random as usize % among
}

/// Selects keys that are never deleted.
fn is_never_deleted(key: usize) -> bool {
    key.is_multiple_of(4)
}

/// Runs one writer, for the keys whose lowest bit equals its number.
fn write(case: Case, worker: &mut Worker, logs: &[Log], stop: &AtomicBool) {
    let turn = worker.number();
    let mut random = turn as u64 + 1;
    for step in 1u64.. {
        if stop.load(SeqCst) {
            return;
        }
        let key = draw(&mut random) / 2 * 2 + turn;
        let log = &logs[key];
        let number = log.begun.load(SeqCst) + 1;
        log.begun.store(number, SeqCst);
        let value = value(key, number);
        let operation = match random >> 40 & 15 {
            0 | 1 if !is_never_deleted(key) => Operation::Delete,
            drawn => Operation::Store {
                condition: Condition::Always,
                value: &value,
                flags: if random >> 50 & 3 == 0 { 0 } else { number as u32 },
                expiry: match drawn {
                    2 if !is_never_deleted(key) => Expiry::PAST,
                    3..6 => Expiry(now_s() + 1000),
                    _ => Expiry::NEVER,
                },
            },
        };
        execute(worker, &name(key), operation);
        log.done.store(number, SeqCst);
        if step.is_multiple_of(1000) {
            worker.maintain(now_s());
        }
        if case.flushes && turn == 0 && step.is_multiple_of(20_000) {
            flush(worker, logs);
        }
    }
}

/// Executes an operation. A store has to succeed. It is refused, and changes nothing, while its log's head
/// meets an item that the other writer has not finished, if that thread does not get to run.
fn execute(worker: &mut Worker, name: &str, operation: Operation<'_>) {
    let request = Request { hash: worker.cache().hash(name.as_bytes()), key: name.as_bytes(), operation };
    let mut last = LastOutcome(Outcome::Busy);
    let stores = matches!(operation, Operation::Store { .. });
    for _ in 0..ATTEMPTS_MAX {
        worker.execute(&[request], now_s(), &mut last);
        if !stores || last.0 != Outcome::OutOfMemory {
            break;
        }
    }
    assert!(!stores || last.0 == Outcome::Stored, "{:?}", last.0);
}

/// Flushes. Afterwards no read may return a value from before the flush.
fn flush(worker: &mut Worker, logs: &[Log]) {
    let done: Vec<_> = logs.iter().map(|log| log.done.load(SeqCst)).collect();
    worker.flush_all(now_s(), now_s());
    for (log, done) in logs.iter().zip(done) {
        // The next number stands for no value. The other writer may have advanced meanwhile.
        let next = (done, done + 1);
        if log.begun.compare_exchange(next.0, next.1, SeqCst, SeqCst).is_ok() {
            log.done.store(next.1, SeqCst);
        }
    }
}

/// Returns the reply to a get, or `None` if it was passed on.
fn get(program: &Program, name: &str) -> Option<Vec<u8>> {
    let request = [FRAME, b"get ", name.as_bytes(), b"\r\n"].concat();
    let frame = datagram(CLIENT, SERVER, &request);
    let (verdict, out, _) = micanite_bpf::run(program.descriptor.as_fd(), &frame, 1).unwrap();
    if verdict == PASS {
        assert!(out == frame, "passed on, but changed");
        return None;
    }
    assert_eq!(verdict, SENT);
    Some(payload(&out)[FRAME.len()..].to_vec())
}

/// Requests a key and checks the reply; returns whether it was a hit.
fn ask(program: &Program, key: usize, logs: &[Log]) -> Option<bool> {
    let name = name(key);
    let least = logs[key].done.load(SeqCst);
    let reply = get(program, &name)?;
    let most = logs[key].begun.load(SeqCst);
    if reply == b"END\r\n" {
        return Some(false);
    }
    let line_bytes = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let line = std::str::from_utf8(&reply[..line_bytes]).unwrap();
    let found = &reply[line_bytes..reply.len() - b"\r\nEND\r\n".len()];
    let number = u64::from_le_bytes(*found.first_chunk().unwrap()) & ((1 << 40) - 1);
    assert!(found == value(key, number), "{line}: torn, or another key's");
    let flags: u64 = line.split(' ').nth(2).unwrap().parse().unwrap();
    assert!(flags == 0 || flags == number, "flags {flags} of write {number}");
    let expected = format!("VALUE {name} {flags} {}\r\n", found.len());
    assert_eq!(line, expected);
    assert!(number >= least, "write {number} came back after write {least}");
    assert!(number <= most, "write {number} before it began ({most})");
    Some(true)
}

fn run(case: Case) {
    if !can_load() {
        return;
    }
    let mut fixture = Fixture::new((case.config)());
    let logs: Vec<_> = (0..KEYS).map(|_| Log::default()).collect();
    let stop = AtomicBool::new(false);
    let (mut hits, mut passed, mut lost) = (0, 0, 0);
    std::thread::scope(|scope| {
        let logs = &logs;
        let ended = EndsOnDrop(&stop);
        let stop = &stop;
        let mut second = fixture.cache.worker(1).unwrap();
        let (worker, program) = (&mut fixture.worker, &fixture.program);
        scope.spawn(move || {
            let _ends = EndsOnDrop(stop);
            write(case, &mut second, logs, stop);
        });
        scope.spawn(move || {
            let _ends = EndsOnDrop(stop);
            write(case, worker, logs, stop);
        });
        let is_new = |log: &Log| log.done.load(SeqCst) == 0;
        while logs[..HOT_KEYS].iter().any(is_new) && !stop.load(SeqCst) {
            std::thread::yield_now();
        }
        let mut random = 77u64;
        for _ in 0..RUNS {
            let key = draw(&mut random);
            let was_there = is_never_deleted(key) && logs[key].done.load(SeqCst) > 0;
            match ask(program, key, logs) {
                Some(true) => hits += 1,
                Some(false) => lost += u64::from(was_there),
                None => passed += 1,
            }
            assert!(!stop.load(SeqCst), "a writer has ended");
        }
        drop(ended);
    });
    let counters = fixture.counters();
    println!("{hits} hits, {passed} passed, {lost} lost, {counters:?}, {:?}", fixture.cache.stats());
    assert!(hits * 4 > RUNS, "{hits} hits");
    assert!(passed * 10 < RUNS, "{passed} passed on: {counters:?}");
    assert!(!case.is_store || case.flushes || lost == 0, "a store lost {lost}");
}

/// Stops the other threads, also at a panic.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn cache(eviction: Eviction) -> Config {
    Config { memory_bytes: 2 << 20, value_bytes_max: 2000, workers: 2, eviction, ..Config::default() }
}

#[test]
fn small_cache_returns_current_values() {
    run(Case { config: || cache(Eviction::S3Fifo), is_store: false, flushes: true });
}

#[test]
fn promoting_cache_returns_current_values() {
    run(Case { config: || cache(Eviction::ApproximateLru), is_store: false, flushes: false });
}

#[test]
fn store_returns_current_values_and_misses_nothing() {
    for flushes in [false, true] {
        run(Case {
            config: || Config {
                semantics: Semantics::Store,
                memory_bytes: 16 << 20,
                // Starts with a small index, which has to grow.
                item_bytes_hint: Some(10_000),
                ..cache(Eviction::Fifo)
            },
            is_store: true,
            flushes,
        });
    }
}

/// Writes items one after the other and requests the oldest that still exists, so that its space is
/// often overwritten during the read.
#[test]
fn overwritten_items_are_never_returned() {
    if !can_load() {
        return;
    }
    let mut fixture = Fixture::new(cache(Eviction::Fifo));
    let stop = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    let of_number = |number: u64| (format!("item-{number:x}"), value(1, number));
    let mut hits = 0;
    std::thread::scope(|scope| {
        let (worker, program) = (&mut fixture.worker, &fixture.program);
        let ended = EndsOnDrop(&stop);
        let (stop, written) = (&stop, &written);
        scope.spawn(move || {
            let _ends = EndsOnDrop(stop);
            for number in 0.. {
                if stop.load(SeqCst) {
                    break;
                }
                let (name, value) = of_number(number);
                let operation = Operation::Store {
                    condition: Condition::Always,
                    value: &value,
                    flags: 0,
                    expiry: Expiry::NEVER,
                };
                execute(worker, &name, operation);
                written.store(number, SeqCst);
            }
        });
        // By then some items are overwritten.
        while written.load(SeqCst) < 20_000 && !stop.load(SeqCst) {
            std::thread::yield_now();
        }
        let mut behind = 1;
        for _ in 0..RUNS {
            let number = written.load(SeqCst).saturating_sub(behind);
            let (name, value) = of_number(number);
            let hit = match get(program, &name) {
                None => continue,
                Some(reply) if reply == b"END\r\n" => false,
                Some(reply) => {
                    let line = format!("VALUE {name} 0 {}\r\n", value.len());
                    let whole = [line.as_bytes(), &value, b"\r\nEND\r\n"].concat();
                    assert!(reply == whole, "{name} is torn");
                    true
                }
            };
            hits += u64::from(hit);
            behind = if hit { behind + 1 } else { behind - 1 }.max(1);
            assert!(!stop.load(SeqCst), "the writer has ended");
        }
        drop(ended);
    });
    let counters = fixture.counters();
    println!("{hits} hits, {counters:?}");
    assert!(hits * 10 > RUNS && counters.misses * 10 > RUNS, "{counters:?}");
}
