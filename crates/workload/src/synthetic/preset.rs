//! Workloads that are a choice of laws: lengths, popularity, operations.

use crate::{DataSet, Items, KeyedLengths, Popularity};

/// A published workload that is a choice of laws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// Lengths of keys and values.
    pub lengths: Lengths,
    pub popularity: Popularity,
    /// Percentage of the operations that read; the others write, or read and then write.
    pub get_percent: f64,
    /// True if what writes reads the same item first: an operation of two requests.
    pub reads_before_writing: bool,
    /// Items, if nothing else is said.
    pub items: u64,
}

/// Lengths of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// Equal lengths for all items.
    Alike(DataSet),
    /// Values of different lengths with this mean.
    Around(KeyedLengths),
}

const fn alike(key_bytes: usize, value_bytes: usize) -> Lengths {
    Lengths::Alike(DataSet { key_bytes, value_bytes })
}

/// A record of YCSB: ten fields of 100 bytes; keys are `user` and a hash of up to 19 digits.
const fn ycsb(name: &'static str, popularity: Popularity, get_percent: f64) -> Preset {
    Preset {
        name,
        lengths: alike(23, 1000),
        popularity,
        get_percent,
        reads_before_writing: false,
        items: 1_000_000,
    }
}

const fn mica(name: &'static str, key_bytes: usize, value_bytes: usize) -> Preset {
    Preset {
        name,
        lengths: alike(key_bytes, value_bytes),
        popularity: Popularity::Zipf(0.99),
        get_percent: 95.0,
        reads_before_writing: false,
        items: 1_000_000,
    }
}

/// Keys of 100 bytes, about 500 MB.
const fn inner(name: &'static str, popularity: Popularity, get_percent: f64) -> Preset {
    inner_of(name, popularity, get_percent, 1 << 10)
}

const fn inner_large(name: &'static str, popularity: Popularity, get_percent: f64) -> Preset {
    inner_of(name, popularity, get_percent, 512 << 10)
}

const fn inner_of(
    name: &'static str,
    popularity: Popularity,
    get_percent: f64,
    value_bytes_mean: usize,
) -> Preset {
    Preset {
        name,
        lengths: Lengths::Around(KeyedLengths { key_bytes: 100, value_bytes_mean }),
        popularity,
        get_percent,
        reads_before_writing: false,
        items: 500_000_000 / (100 + value_bytes_mean as u64),
    }
}

impl Preset {
    /// All presets.
    ///
    /// YCSB A to D and F: E scans, which a cache does not. An update of YCSB writes one field of a
    /// record; here it writes the value, which is the record. MICA's four data sets with the mix
    /// and the skew that most of its figures have. InnerCache's nine mixes, each with values
    /// of 1 KiB and of 512 KiB on average.
    pub const ALL: [Self; 27] = {
        use Popularity::{Latest, Scrambled, Uniform, Zipf};
        const ZIPF: Popularity = Zipf(0.99);
        [
            ycsb("ycsb-a", Scrambled, 50.0),
            ycsb("ycsb-b", Scrambled, 95.0),
            ycsb("ycsb-c", Scrambled, 100.0),
            ycsb("ycsb-d", Latest, 95.0),
            Self { reads_before_writing: true, ..ycsb("ycsb-f", Scrambled, 50.0) },
            mica("mica-tiny", 8, 8),
            mica("mica-small", 16, 64),
            mica("mica-large", 128, 1024),
            mica("mica-xlarge", 250, 1152),
            inner("innercache-uniform-50", Uniform, 50.0),
            inner("innercache-uniform-90", Uniform, 90.0),
            inner("innercache-uniform-10", Uniform, 10.0),
            inner("innercache-latest-50", Latest, 50.0),
            inner("innercache-latest-90", Latest, 90.0),
            inner("innercache-latest-10", Latest, 10.0),
            inner("innercache-zipf-50", ZIPF, 50.0),
            inner("innercache-zipf-90", ZIPF, 90.0),
            inner("innercache-zipf-10", ZIPF, 10.0),
            inner_large("innercache-uniform-50-512k", Uniform, 50.0),
            inner_large("innercache-uniform-90-512k", Uniform, 90.0),
            inner_large("innercache-uniform-10-512k", Uniform, 10.0),
            inner_large("innercache-latest-50-512k", Latest, 50.0),
            inner_large("innercache-latest-90-512k", Latest, 90.0),
            inner_large("innercache-latest-10-512k", Latest, 10.0),
            inner_large("innercache-zipf-50-512k", ZIPF, 50.0),
            inner_large("innercache-zipf-90-512k", ZIPF, 90.0),
            inner_large("innercache-zipf-10-512k", ZIPF, 10.0),
        ]
    };

    /// Keys and values of the preset.
    pub fn items_of(&self) -> Items {
        match self.lengths {
            Lengths::Alike(lengths) => Items::alike(lengths),
            Lengths::Around(lengths) => Items::Around(lengths),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Preset {
        let found = Preset::ALL.into_iter().find(|preset| preset.name == name);
        found.unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn names_are_different() {
        let names: std::collections::HashSet<_> = Preset::ALL.iter().map(|preset| preset.name).collect();
        assert_eq!(names.len(), Preset::ALL.len());
    }

    #[test]
    fn inner_caches_workloads_have_half_a_gigabyte() {
        for (name, value_bytes) in [("innercache-zipf-90", 1 << 10), ("innercache-latest-10-512k", 512 << 10)]
        {
            let preset = named(name);
            let items = preset.items_of();
            let sampled = preset.items.min(20_000);
            let values: usize = (0..sampled).map(|item| items.value_bytes(item)).sum();
            let mean = values as f64 / sampled as f64;
            assert!((mean / f64::from(value_bytes) - 1.0).abs() < 0.01, "{mean}");
            let all = preset.items as f64 * (mean + 100.0);
            assert!((0.98e9 / 2.0..1.02e9 / 2.0).contains(&all), "{all}");
            assert_eq!(items.key_bytes(7), 100);
        }
    }

    #[test]
    fn operations_are_as_published() {
        let gets = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f"].map(|name| named(name).get_percent);
        assert_eq!(gets, [50.0, 95.0, 100.0, 95.0, 50.0]);
        assert!(named("ycsb-f").reads_before_writing && !named("ycsb-a").reads_before_writing);
        assert_eq!(named("ycsb-d").popularity, Popularity::Latest);
        assert_eq!(named("mica-xlarge").lengths, Lengths::Alike("xlarge".parse().unwrap()));
    }
}
