//! Batches of any length beside a slow twin: the same requests, one at a time and without prefetching. Each
//! reply is the same, and so is each word of the memory.

use std::sync::atomic::Ordering;

use crate::tests::support::*;
use crate::*;

const ROUNDS: usize = 100;

/// Replies of a batch, of which only so many values have room.
struct Limited {
    replies: Replies,
    room: usize,
}

impl ReplySink for Limited {
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.room = self.room.checked_sub(1)?;
        self.replies.reserve(index, meta)
    }

    fn rollback(&mut self, index: usize) {
        self.replies.rollback(index);
    }

    fn describe(&mut self, index: usize, item: ItemMeta) {
        self.replies.describe(index, item);
    }

    fn finish(&mut self, index: usize, outcome: Outcome) {
        self.replies.finish(index, outcome);
    }
}

/// Draws a key, a few of which have the same first bytes and other lengths.
fn draw_key(random: &mut Random, keys: usize) -> Vec<u8> {
    let number = random.below(keys);
    let mut key = vec![b'k'; 3 + number * 7 % 38];
    key[..3].copy_from_slice(format!("{number:03}").as_bytes());
    key
}

/// Draws an operation. `touches` if an operation may be one that changes an item although its reply has no
/// room.
fn draw<'a>(random: &mut Random, value: &'a [u8], now_s: u32, touches: bool) -> Operation<'a> {
    let flags = if random.below(6) == 0 { 7 } else { 0 };
    let expiry_s = if random.below(8) == 0 { now_s + 1 + random.below(5) as u32 } else { 0 };
    let expiry = Expiry(expiry_s);
    match random.below(24) {
        0 => Operation::Delete,
        1 if touches => Operation::Get { cas: true },
        2 => Operation::Append { value },
        3 => Operation::Touch { expiry },
        4 if touches => Operation::GetAndTouch { expiry, cas: false },
        5 => store(Condition::Absent, value, flags, expiry_s),
        6 => store(Condition::Present, value, flags, expiry_s),
        7 => Operation::MetaGet(MetaGet { value: true, access: flags != 0, ..MetaGet::default() }),
        8..=14 => store(Condition::Always, value, flags, expiry_s),
        _ => Operation::Get { cas: false },
    }
}

fn batch_requests(random: &mut Random) -> usize {
    match random.below(6) {
        0 => 1,
        1 => 64,
        2 => 65,
        3 => 128,
        4 => 200 + random.below(200),
        _ => 1 + random.below(70),
    }
}

fn run(setup: &Setup, seed: u64, keys: usize) {
    let (cache, twin) = (setup.cache(), setup.cache());
    twin.prefetch_on.store(false, Ordering::Relaxed);
    let (mut worker, mut client) = (cache.worker(0).unwrap(), Client::new(&twin, 0));
    let mut random = Random(seed);
    let mut now_s = 1000;
    for round in 0..ROUNDS {
        now_s += u32::from(random.below(4) == 0);
        client.now_s = now_s;
        let count = batch_requests(&mut random);
        let of_value = |random: &mut Random| {
            let bytes = [8, 8, 5, 16, 20, 33, 0, 70][random.below(8)];
            (0..bytes).map(|_| random.next() as u8).collect::<Vec<_>>()
        };
        let keys: Vec<_> = (0..count).map(|_| draw_key(&mut random, keys)).collect();
        let values: Vec<_> = (0..count).map(|_| of_value(&mut random)).collect();
        let touches = round % 2 == 0;
        let batch: Vec<_> = keys
            .iter()
            .zip(&values)
            .map(|(key, value)| {
                let operation = draw(&mut random, value, now_s, touches);
                Request { hash: cache.hash(key), key, operation }
            })
            .collect();
        let mut rest = batch.as_slice();
        while !rest.is_empty() {
            let room = if !touches && random.below(3) == 0 { 1 + random.below(150) } else { usize::MAX };
            let mut sink = Limited { replies: Replies::default(), room };
            let done = worker.execute(rest, now_s, &mut sink);
            assert!(done > 0 && done == sink.replies.0.len(), "{setup:?}");
            for (request, reply) in rest.iter().zip(&mut sink.replies.0) {
                let mut alone = client.ask(request.key, request.operation);
                if matches!(request.operation, Operation::MetaGet(_)) {
                    // The twin asks once more for what had no room.
                    (reply.item.access_s, alone.item.access_s) = (0, 0);
                }
                assert_eq!(*reply, alone, "{setup:?}, round {round}: {request:?}");
            }
            rest = &rest[done..];
        }
        if random.below(10) == 0 {
            worker.flush_all(0, now_s);
            client.worker.flush_all(0, now_s);
        }
        if random.below(3) == 0 {
            worker.maintain(now_s);
            client.worker.maintain(now_s);
        }
        for (one, other) in cache.partitions.iter().zip(&twin.partitions) {
            let differs = |word: &usize| {
                let of =
                    |partition: &crate::partition::Partition| partition.word(*word).load(Ordering::Relaxed);
                of(one) != of(other)
            };
            let word = (0..one.region.words()).find(differs);
            assert_eq!(word, None, "{setup:?}, round {round}: a word of the memory differs");
        }
    }
}

#[test]
fn long_batches_of_a_cache_do_what_single_requests_do() {
    let geometries = [
        (64, 16 * 512, 45, false, 300),
        (4, 1024, 13, false, 200),
        (2, 4096, 20, true, 400),
        (2, 4096, 45, true, 400),
        (48, 512, 11, false, 150),
    ];
    let mut seed = 1;
    for eviction in Eviction::ALL {
        for (buckets, data_units, offset_bits, grows, keys) in geometries {
            for partition_bits in [0, 2] {
                let size = Setup { buckets, data_units, offset_bits, grows, ..Setup::default() };
                let setup = Setup { eviction, partition_bits, value_bytes_max: 300, ..size };
                seed += 2;
                run(&setup, seed, keys);
            }
        }
    }
}

#[test]
fn long_batches_of_a_store_do_what_single_requests_do() {
    let mut seed = 101;
    for (buckets, data_units, grows, keys) in
        [(64, 16 * 1024, false, 300), (32, 1200, false, 150), (2, 8192, true, 300)]
    {
        for maps in [false, true] {
            let size = Setup { buckets, data_units, grows, maps, ..Setup::default() };
            seed += 2;
            run(&Setup { semantics: Semantics::Store, value_bytes_max: 300, ..size }, seed, keys);
        }
    }
}
