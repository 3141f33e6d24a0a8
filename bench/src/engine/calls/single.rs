//! One request at a time, by calls of the embedded engine: independent requests, which the processor may
//! overlap, and a chain, in which each key depends on the value before.

use std::hint::black_box;
use std::time::Instant;

use micanite_engine::{Config, Expiry, Outcome};

use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::{Micanite, bytes, config_of, first_word};
use crate::engine::peers::Hashbrown;
use crate::engine::throughput::fill;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

const COUNT: usize = 1 << 20;
/// In the caches, in a few of their sizes, far beyond them.
const ITEMS: [u64; 3] = [16 << 10, 1 << 20, 16 << 20];

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Chain,
    Miss,
    Set,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Get, Self::Chain, Self::Miss, Self::Set];

    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Chain => "GET in a chain",
            Self::Miss => "miss",
            Self::Set => "SET",
        }
    }
}

trait Single {
    /// Returns the first word of a key's value.
    fn get(&mut self, item: u32) -> Option<u64>;
    fn set(&mut self, item: u32);
}

impl Single for Micanite<8, 8> {
    #[inline]
    fn get(&mut self, item: u32) -> Option<u64> {
        let key: [u8; 8] = bytes(item);
        self.worker().get_with(&key, 0, |value, _| first_word(value)).expect("the owner asks")
    }

    #[inline]
    fn set(&mut self, item: u32) {
        let key: [u8; 8] = bytes(item);
        let stored = self.worker().set(&key, &bytes::<8>(item), Expiry::NEVER, 0);
        debug_assert_eq!(stored, Outcome::Stored);
    }
}

impl Single for Hashbrown<8, 8> {
    #[inline]
    fn get(&mut self, item: u32) -> Option<u64> {
        self.value(&bytes(item)).map(|value| first_word(value))
    }

    #[inline]
    fn set(&mut self, item: u32) {
        self.put(bytes(item), bytes(item));
    }
}

/// Measures each kind, for ours and hashbrown in turns.
pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    let case = |kind: Kind, items: u64| format!("one request at a time, 8/8, {items} items, {}", kind.name());
    for items in ITEMS {
        let kinds: Vec<_> =
            Kind::ALL.into_iter().filter(|kind| options.common.wants(&case(*kind, items))).collect();
        if kinds.is_empty() || items > options.items {
            continue;
        }
        let eviction = options.eviction.unwrap_or_default();
        let mut ours = Micanite::<8, 8>::new(&Config { eviction, ..config_of::<8, 8>(items, 1) })?;
        ours.cache().populate();
        fill(&mut ours, items);
        let mut peer = Hashbrown::<8, 8>::new(items);
        fill(&mut peer, items);
        let drawn = Popularity::Uniform.draw(items, COUNT, 17);
        for kind in kinds {
            let (mut ours_ns, mut peer_ns) = (Vec::new(), Vec::new());
            for round in 0..=options.common.rounds() {
                let of_round = (ns(&mut ours, kind, &drawn, items)?, ns(&mut peer, kind, &drawn, items)?);
                // The first round warms up.
                if round > 0 {
                    ours_ns.push(of_round.0);
                    peer_ns.push(of_round.1);
                }
            }
            report.beside((&case(kind, items), "operation", "ns"), &ours_ns, "hashbrown 0.17", &peer_ns);
        }
    }
    Ok(())
}

/// The time of a request. Fails when more than a hundredth of what was asked for came out otherwise than it
/// should, or one value is another key's.
fn ns(of: &mut impl Single, kind: Kind, drawn: &[u32], items: u64) -> Result<f64> {
    let beyond = if kind == Kind::Miss { items as u32 } else { 0 };
    let (mut found, mut wrong, mut of_before) = (0, 0, 0);
    let start = Instant::now();
    for item in drawn {
        // The value before is its item's number, so this changes nothing but the order.
        let item = (item + beyond) ^ of_before;
        if kind == Kind::Set {
            of.set(item);
            continue;
        }
        if let Some(value) = black_box(of.get(item)) {
            found += 1;
            wrong += usize::from(value != u64::from(item));
            if kind == Kind::Chain {
                of_before = black_box(value as u32) ^ item;
            }
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / drawn.len() as f64;
    let expected = if matches!(kind, Kind::Get | Kind::Chain) { drawn.len() } else { 0 };
    if wrong > 0 || drawn.len() / 100 < expected.abs_diff(found) {
        return Err(format!("{}: {found} found, {wrong} wrong", kind.name()).into());
    }
    Ok(ns)
}
