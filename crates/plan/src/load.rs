//! The load that a plan is for.

use micanite_engine::{Footprint, Semantics};
use serde::Serialize;

use crate::law::Law;
use crate::simulate::Arrivals;

/// Bounds, for sentences instead of absurd figures.
const RATE_MAX: f64 = 1e13;
const ITEMS_MAX: u64 = 1 << 50;
const KEY_BYTES_MAX: f64 = micanite_engine::KEY_BYTES_MAX as f64;
const VALUE_BYTES_MAX: f64 = micanite_engine::limits::VALUE_BYTES_MAX as f64;
const BATCH_MAX: u32 = 1 << 16;
const BURST_MAX: u32 = 1 << 12;

/// Requests that come from outside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Items.
    pub items: u64,
    /// Bytes of a key, on average.
    pub key_bytes: f64,
    /// Bytes of a value, on average.
    pub value_bytes: f64,
    /// Share of the requests that read.
    pub get: f64,
    /// Exponent of Zipf's law; 0 is uniform.
    pub zipf: f64,
    /// Requests per datagram, or of a pipeline.
    pub batch: u32,
    /// Requests per second that are wanted.
    pub rate: f64,
    /// 95th percentile of the latency that is wanted, in microseconds.
    pub p95_us: f64,
    /// Requests per second of one client.
    pub client_rate: f64,
    /// Seed of all that is drawn.
    pub seed: u64,
    /// How datagrams come.
    #[serde(skip)]
    pub arrivals: Arrivals,
}

impl Load {
    /// The paper's standard load (section 4.2): uniform, tiny items, 95 % GET.
    pub fn standard() -> Self {
        Self {
            items: 192 << 20,
            key_bytes: 8.0,
            value_bytes: 8.0,
            get: 0.95,
            zipf: 0.0,
            batch: 1,
            rate: 1e6,
            p95_us: 100.0,
            client_rate: 1e6,
            seed: 1,
            arrivals: Arrivals::Poisson,
        }
    }

    /// Returns the law of the keys.
    pub fn law(&self) -> Law {
        Law::new(self.items, self.zipf)
    }

    /// Returns the memory that an item takes in a cache.
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.key_bytes.ceil() as usize, self.value_bytes.ceil() as usize, Semantics::Cache)
    }

    /// Returns the bytes of an item, its header included.
    pub fn item_bytes(&self) -> f64 {
        self.footprint().item_bytes as f64
    }

    /// Refuses what is no load, with a sentence.
    ///
    /// # Errors
    /// A number that is out of range.
    pub fn check(&self) -> Result<(), String> {
        if self.items == 0 || self.items > ITEMS_MAX {
            return Err(format!("--items is {}: 1 to 2^50", self.items));
        }
        let ranges = [
            ("--key", self.key_bytes, 1.0, KEY_BYTES_MAX),
            ("--value", self.value_bytes, 0.0, VALUE_BYTES_MAX),
            ("--get", self.get * 100.0, 0.0, 100.0),
            ("--zipf", self.zipf, 0.0, 3.0),
            ("--rate", self.rate, 1.0, RATE_MAX),
            ("--p95", self.p95_us, 0.001, 1e9),
            ("--client-rate", self.client_rate, 1.0, RATE_MAX),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} is {value:?}: it must be {least} to {most}"));
            }
        }
        if let Arrivals::Bursts(burst) = self.arrivals
            && !(1..=BURST_MAX).contains(&burst)
        {
            return Err(format!("--burst is {burst}: 1 to {BURST_MAX}"));
        }
        if self.batch == 0 || self.batch > BATCH_MAX {
            return Err(format!("--batch is {}: 1 to {BATCH_MAX}", self.batch));
        }
        Ok(())
    }
}
