//! Damaged images: whatever the words of an image contain, it is refused and left as it is, or
//! served without a panic, without end, and without a value under another key. Changes outside of
//! the items lead to no value that was not stored.

use std::sync::Arc;

use crate::partition::Partition;
use crate::tests::support::{Client, Setup, store};
use crate::*;
use micanite_memory::sync::Ordering::Relaxed;

/// Seconds at which the image is made, and opened again: some items have expired then.
const MADE_S: u32 = 1000;
const OPENED_S: u32 = 2000;
/// Bytes of one change of a word.
pub(super) const EDIT_BYTES: usize = 12;
const KEYS: u32 = 120;

/// Makes an image, changes words of it, opens it, uses it, and opens it once more.
///
/// The first two bytes of `data` choose the image; every twelve more are a change.
pub fn images(data: &[u8]) {
    let [shape, filled, edits @ ..] = data else {
        return;
    };
    let setup = setup(*shape);
    let cache = setup.cache();
    fill(&cache, u32::from(*filled));
    let maps = cache.config().maps.clone().expect("it lies in maps");
    if shape & 2 != 0 {
        cache.partitions_closed();
    }
    let mut spares_items = true;
    for edit in edits.chunks_exact(EDIT_BYTES) {
        spares_items &= change(&cache, edit);
    }
    let check = match spares_items {
        true => check_stored,
        false => check_whole,
    };
    let before = words(&cache);
    let reopened = || {
        let maps = Some(Maps { kept: true, ..maps.clone() });
        setup.try_cache_in(maps)
    };
    let Ok(opened) = reopened() else {
        assert!(words(&cache) == before, "it was refused, and written to");
        return;
    };
    drop(cache);
    serve(&opened, shape & 8 != 0, check);
    opened.partitions_closed();
    drop(opened);
    // It may be refused now: more is counted now than at the first start.
    if let Ok(opened) = reopened() {
        serve(&opened, shape & 8 != 0, check);
    }
}

/// Returns a cache or store, closed or killed; small or with an index that has grown; one worker or
/// two; of some eviction policy.
fn setup(shape: u8) -> Setup {
    let semantics = match shape & 1 {
        0 => Semantics::Cache,
        _ => Semantics::Store,
    };
    let grows = shape & 4 != 0;
    Setup {
        semantics,
        maps: true,
        buckets: if grows { 2 } else { 8 },
        data_units: if shape & 16 != 0 { 1024 } else { 4096 },
        grows,
        value_bytes_max: 400,
        workers: if shape & 8 != 0 { 2 } else { 1 },
        eviction: if shape & 32 != 0 { Eviction::Fifo } else { Eviction::S3Fifo },
        partition_bits: u32::from(shape >> 6 & 1),
        ..Setup::default()
    }
}

impl Cache {
    fn partitions_closed(&self) {
        crate::image::close(&self.partitions).expect("memory needs no disk");
    }
}

fn words(cache: &Cache) -> Vec<u64> {
    let of = |partition: &Partition| {
        let words = 0..partition.region.words();
        let words = words.map(|word| partition.word(word).load(Relaxed));
        words.collect::<Vec<_>>()
    };
    cache.partitions.iter().flat_map(of).collect()
}

/// Returns a key with or without a namespace, or of a number.
fn key(number: u32) -> Vec<u8> {
    match number % 8 {
        0 => format!("name:{number}"),
        1 => format!("number-{number}"),
        _ => format!("key-{number}"),
    }
    .into_bytes()
}

/// Returns a value that repeats its key.
fn value(number: u32, version: u32) -> Vec<u8> {
    if number % 8 == 1 {
        return format!("{version}").into_bytes();
    }
    let once = format!("<{number}>");
    once.repeat(1 + (number.wrapping_mul(7) + version.wrapping_mul(31)) as usize % 60).into_bytes()
}

/// Check of the value of a key.
type Check = fn(u32, &[u8]);

/// Panics if a value was never one of the key's: apart from numbers, it contains its key, and what
/// was appended.
fn check_stored(number: u32, value: &[u8]) {
    let end = value.iter().rposition(|byte| *byte != b'+');
    let once = format!("<{number}>").into_bytes();
    let mut all = value[..end.map_or(0, |at| at + 1)].chunks(once.len());
    let is_stored = end.is_some() && all.all(|chunk| chunk == once);
    let text = String::from_utf8_lossy(value);
    assert!(number % 8 == 1 || is_stored, "{number} has {text}");
}

/// Panics if a value is the whole value of another key.
fn check_whole(number: u32, value: &[u8]) {
    let Some(end) = value.iter().position(|byte| *byte == b'>') else {
        return;
    };
    let once = &value[..=end];
    let is_whole =
        value.len().is_multiple_of(once.len()) && value.chunks(once.len()).all(|chunk| chunk == once);
    let Some(of) = std::str::from_utf8(&once[..end]).ok().and_then(|text| text.strip_prefix('<')) else {
        return;
    };
    if let Ok(of) = of.parse::<u32>()
        && is_whole
    {
        assert_eq!(of, number, "a value under another key");
    }
}

fn fill(cache: &Arc<Cache>, filled: u32) {
    let mut client = Client::new(cache, 0);
    client.now_s = MADE_S;
    for step in 0..filled * 2 {
        let number = step % KEYS;
        let value = value(number, step);
        let expiry_s = if number.is_multiple_of(11) { OPENED_S - 500 } else { 0 };
        let flags = number % 3;
        client.ask(&key(number), store(Condition::Always, &value, flags, expiry_s));
        if step % 5 == 0 {
            client.get(&key(step * 7 % KEYS));
        }
        if step % 13 == 0 {
            client.ask(&key(step * 3 % KEYS), Operation::Delete);
        }
        if step % 17 == 0 {
            client.ask(&key(number), Operation::Get { cas: true });
        }
        if step == 200 {
            let name = b"name".as_slice();
            client.worker.invalidate_namespace(name, MADE_S).expect("one of few");
        }
        if step % 400 == 399 {
            client.worker.flush_all(MADE_S, MADE_S);
        }
    }
}

/// Changes a word: the first four bytes choose it, the others the change. Returns whether it lies
/// outside of the items.
fn change(cache: &Cache, edit: &[u8]) -> bool {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (kind, place, operand) = (edit[0], number(&edit[1..4]) as usize, number(&edit[4..12]));
    let p = &cache.partitions[place % cache.partitions.len()];
    let (first, end) = (p.layout.data_first(), p.layout.region_words as usize);
    let data_end = p.layout.data_end(p.layout.buckets) as usize;
    let place = place / cache.partitions.len();
    let at = match kind % 5 {
        0 => place % 64,
        1 => 64 + place % 32,
        2 => data_end + place % (end - data_end),
        3 if p.is_store() => crate::limits::IMAGE_HEADER_WORDS + place % 40,
        _ => first + place % (end - first),
    };
    let word = p.word(at);
    let now = word.load(Relaxed);
    let changed = match kind / 5 % 6 {
        0 => now ^ 1 << (operand % 64),
        1 => operand,
        2 => now.wrapping_add(operand % 64).wrapping_sub(32),
        3 => p.word(operand as usize % end).load(Relaxed),
        4 => 0,
        _ => now ^ operand << 32,
    };
    word.store(changed, Relaxed);
    !(first..data_end).contains(&at)
}

/// Makes requests of all kinds, upkeep, a walk, a copy.
fn serve(cache: &Arc<Cache>, two: bool, check: Check) {
    let mut clients = vec![Client::new(cache, 0)];
    if two {
        clients.push(Client::new(cache, 1));
    }
    let now_s = OPENED_S;
    for client in &mut clients {
        client.now_s = now_s;
        get_all(client, check);
        visit(cache, now_s);
        for number in 0..KEYS {
            let key = key(number);
            let value = value(number, number + 1);
            client.ask(&key, store(Condition::Always, &value, number % 2, 0));
            client.ask(&key, Operation::Increment { delta: 3 });
            client.ask(&key, Operation::Touch { expiry: Expiry(now_s + 100 * (number % 3)) });
            client.ask(&key, Operation::Append { value: b"+" });
            if number % 9 == 0 {
                client.ask(&key, Operation::Delete);
            }
            let meta = MetaGet { value: true, cas: number % 2 == 0, access: true, ..MetaGet::default() };
            client.ask(&key, Operation::MetaGet(meta));
        }
        client.worker.maintain(now_s);
        // Enough of them for a lap of the log.
        for round in 0..3 {
            for number in 0..KEYS {
                let value = value(number, round * number);
                client.ask(&key(number), store(Condition::Always, &value, 0, 0));
            }
            get_all(client, check);
        }
        client.worker.maintain(now_s + 1);
        visit(cache, now_s);
        client.worker.flush_all(now_s, now_s);
        client.set(b"after", b"the flush");
    }
}

/// Gets all keys, one by one and in batches.
fn get_all(client: &mut Client, check: Check) {
    for number in 0..KEYS {
        if let Some(value) = client.get(&key(number)) {
            check(number, &value);
        }
    }
    for first in (0..KEYS).step_by(8) {
        let keys: Vec<_> = (first..first + 8).map(key).collect();
        let replies = client.ask_all(&keys);
        for (number, reply) in (first..).zip(replies) {
            if reply.outcome == Some(Outcome::Hit) {
                check(number, &reply.value);
            }
        }
    }
}

/// Takes every item that a walk finds.
struct All;

impl Visitor for All {
    fn item(&mut self, _: &ItemInfo<'_>) -> Visit {
        Visit::Next
    }
    fn take_back(&mut self) {}
    fn keep(&mut self) {}
}

fn visit(cache: &Cache, now_s: u32) {
    while cache.walk(&mut Walk::default(), usize::MAX, now_s, &mut All) != Walked::End {}
    for (at, partition) in cache.partitions.iter().enumerate() {
        for number in 0..partition.buckets() {
            cache.copy_bucket(at, number, now_s, &mut |_| {});
        }
    }
    cache.stats();
}
