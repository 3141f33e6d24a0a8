//! A store filled until it refuses: what of its memory is key and value then, and what its index
//! looks like.

mod image_index;

use std::sync::Arc;

use micanite_engine::{Cache, Config, Expiry, Outcome, Semantics, Worker};

use self::image_index::ImageIndex;
use super::Options;
use super::contenders::bytes;
use super::scratch::Scratch;
use crate::Result;
use crate::harness::popularity::Random;
use crate::results::measurement::Measurement;

const MEMORY_BYTES: usize = 256 << 20;
const KEY_BYTES: usize = 16;
/// Times that half of the items are replaced by longer ones.
const DRIFTS: usize = 4;

/// Sizes of values.
struct Sizes {
    name: &'static str,
    /// Rounds of deleting a random half and filling the store again.
    drifts: usize,
    draw: fn(drift: usize, random: &mut Random) -> usize,
}

const SIZES: [Sizes; 5] = [
    Sizes { name: "values of 8 bytes", drifts: 0, draw: |_, _| 8 },
    Sizes { name: "uniform 16 to 1024", drifts: 0, draw: |_, random| 16 + random.below(1009) as usize },
    Sizes {
        name: "uniform 16 to 1024, half of it replaced 4 times",
        drifts: DRIFTS,
        draw: |_, random| 16 + random.below(1009) as usize,
    },
    Sizes {
        name: "bimodal: 90 % of 64, 10 % of 4096",
        drifts: 0,
        draw: |_, random| if random.below(10) == 0 { 4096 } else { 64 },
    },
    Sizes {
        name: "drifting: 32 to 63, then twice as long 4 times",
        drifts: DRIFTS,
        draw: |drift, random| (32 + random.below(32) as usize) << drift,
    },
];

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    for sizes in &SIZES {
        let case = format!("full store, {}", sizes.name);
        if options.common.wants(&case) {
            eprintln!("{case}");
            fill_up(&case, sizes, report)?;
        }
    }
    Ok(())
}

/// Content of the store: the length of the value by number of the item.
struct Filling {
    worker: Worker,
    random: Random,
    values: Vec<Option<usize>>,
    payload_bytes: usize,
}

fn fill_up(case: &str, sizes: &Sizes, report: &mut Measurement) -> Result<()> {
    let scratch = Scratch::new("store")?;
    let config = Config {
        memory_bytes: MEMORY_BYTES,
        semantics: Semantics::Store,
        image: Some(scratch.path().to_owned()),
        ..Config::default()
    };
    let cache = Arc::new(Cache::new(&config)?);
    let mut filling = Filling {
        worker: cache.worker(0).ok_or("no worker")?,
        random: Random::new(3),
        values: Vec::new(),
        payload_bytes: 0,
    };
    filling.fill(|random| (sizes.draw)(0, random))?;
    for drift in 1..=sizes.drifts {
        filling.delete_half()?;
        filling.fill(|random| (sizes.draw)(drift, random))?;
    }
    let stats = cache.stats();
    let index = ImageIndex::read(scratch.path())?;
    if index.items() != stats.items_live {
        return Err("the index of the image has other items than the statistics say".into());
    }
    let percent = |part: f64, whole: f64| [part / whole * 100.0];
    let (live, memory) = (filling.payload_bytes as f64, MEMORY_BYTES as f64);
    let space = memory - stats.index_bytes as f64;
    let items = index.items() as f64;
    let mut value = |metric: &str, unit: &str, value: [f64; 1]| {
        report.value(case, metric, unit, &value);
    };
    value("key and value of the memory", "%", percent(live, memory));
    value("key and value of the space without index", "%", percent(live, space));
    value("items with their headers of that space", "%", percent(stats.item_bytes_live as f64, space));
    value("items in main buckets", "%", percent(index.in_main as f64, items));
    value("bucket lines of a lookup", "lines", [index.lines as f64 / items]);
    let (used, spare) = (stats.spare_buckets_used as f64, stats.spare_buckets as f64);
    value("spare buckets used", "%", percent(used, spare));
    value("index of the memory", "%", percent(stats.index_bytes as f64, memory));
    Ok(())
}

impl Filling {
    /// Stores new items until the first one is refused.
    fn fill(&mut self, mut draw: impl FnMut(&mut Random) -> usize) -> Result<()> {
        let value = vec![7; 64 << 10];
        loop {
            let value_bytes = draw(&mut self.random);
            let key = bytes::<KEY_BYTES>(self.values.len() as u32);
            let outcome = self.worker.set(&key, &value[..value_bytes], Expiry::NEVER, 0);
            match outcome {
                Outcome::Stored => {
                    self.payload_bytes += KEY_BYTES + value_bytes;
                    self.values.push(Some(value_bytes));
                }
                Outcome::OutOfMemory => return Ok(()),
                other => return Err(format!("full store: {other:?}").into()),
            }
        }
    }

    fn delete_half(&mut self) -> Result<()> {
        for (number, value) in self.values.iter_mut().enumerate() {
            let Some(value_bytes) = *value else { continue };
            if self.random.below(2) == 0 {
                let key = bytes::<KEY_BYTES>(number as u32);
                if self.worker.delete(&key, 0) != Outcome::Deleted {
                    return Err("full store: an acknowledged item was not there".into());
                }
                self.payload_bytes -= KEY_BYTES + value_bytes;
                *value = None;
            }
        }
        Ok(())
    }
}
