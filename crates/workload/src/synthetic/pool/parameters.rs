//! The five pools in numbers.
//!
//! Numbers from the papers are marked (F): Xu et al., "Characterizing Facebook's Memcached
//! workload", tables 2.1 and 3.3 and sections 2.2 and 2.3 of the Hippos dissertation (Xu, 2014).
//! Everything else is ours; `docs/load.md` says why.

use super::Pool;
use super::lengths::Lengths;
use super::skew::Skew;

/// A pool in numbers.
#[derive(Debug)]
pub(super) struct Parameters {
    pub name: &'static str,
    /// Percentages of GET, UPDATE and DELETE (F).
    pub mix: [f64; 3],
    /// GETs per second of one of its servers (F).
    pub gets_per_s: f64,
    /// Percentage of the GETs that hit (F).
    pub hits: f64,
    /// Percentages of the GETs that miss: compulsory, invalidated, evicted.
    pub misses: [f64; 3],
    pub key_bytes: Lengths,
    pub value_bytes: Lengths,
    /// GETs of all kinds per resident item and hour: what an hour is.
    pub gets_per_key_hour: f64,
    pub residents: Residents,
    /// Fraction of the UPDATEs that store what was missed last, if something was.
    pub fills: f64,
    /// True if that is a new key (else one that was invalidated).
    pub fills_new_keys: bool,
    /// Probability that a missed key is asked for again within minutes, in a [`super::DailyStream`].
    pub revisits: f64,
}

/// Choice of requests among the resident items.
#[derive(Debug)]
pub(super) enum Residents {
    /// Some are more popular than others, all the time.
    Popular(&'static Skew),
    /// Every item has its hour, all of them in turn within so many hours.
    InTurn { hours: f64 },
}

/// Most popular first: a millionth part ... of the keys, and its part of the requests.
static LONG_TAIL: Skew = Skew::new(&[
    (0.00001, 0.01),
    (0.0001, 0.03),
    (0.001, 0.08),
    (0.01, 0.16),
    (0.08889, 0.32),
    (0.3, 0.25),
    (0.6, 0.15),
]);

impl Pool {
    pub(super) const fn parameters(self) -> &'static Parameters {
        match self {
            Self::Usr => &USR,
            Self::App => &APP,
            Self::Etc => &ETC,
            Self::Var => &VAR,
            Self::Sys => &SYS,
        }
    }
}

/// 16 and 21 bytes, nearly all values 2 bytes, 87 % of the misses evicted (F).
static USR: Parameters = Parameters {
    name: "fb-usr",
    mix: [99.7, 0.2, 0.1],
    gets_per_s: 100_500.0,
    hits: 98.2,
    misses: [8.0, 5.0, 87.0],
    key_bytes: Lengths::new(&[(50_000, 16, 16), (50_000, 21, 21)]),
    value_bytes: Lengths::new(&[(100_000, 2, 2)]),
    gets_per_key_hour: 3.0,
    residents: Residents::Popular(&LONG_TAIL),
    fills: 0.5,
    fills_new_keys: false,
    revisits: 0.0,
};

/// Over 90 % of the keys 31 bytes and p99 45, over 30 % of the values about 270 bytes and p99 450,
/// 72 % of the misses evicted, 40 % of the keys in 1 % of the requests (F).
static APP: Parameters = Parameters {
    name: "fb-app",
    mix: [83.4, 5.2, 11.4],
    gets_per_s: 65_800.0,
    hits: 92.9,
    misses: [8.0, 20.0, 72.0],
    key_bytes: Lengths::new(&[(4_000, 20, 30), (91_000, 31, 31), (4_000, 32, 45), (1_000, 46, 70)]),
    value_bytes: Lengths::new(&[
        (10_000, 2, 50),
        (25_000, 51, 200),
        (11_000, 201, 259),
        (32_000, 260, 280),
        (15_000, 281, 400),
        (6_000, 401, 450),
        (1_000, 451, 1000),
    ]),
    gets_per_key_hour: 2.2,
    residents: Residents::Popular(&LONG_TAIL),
    fills: 0.5,
    fills_new_keys: false,
    revisits: 0.56,
};

/// Key p99 80; values of 2, 3 and 11 bytes are 40 %, p99 512, a few of about 1 MB; 22 % of the misses
/// evicted; 50 % of the keys in 1 % of the requests (F). The keys' body follows the published model.
static ETC: Parameters = Parameters {
    name: "fb-etc",
    mix: [73.4, 2.3, 24.0],
    gets_per_s: 57_800.0,
    hits: 81.4,
    misses: [4.0, 74.0, 22.0],
    key_bytes: Lengths::new(&[
        (1_000, 12, 18),
        (9_000, 19, 23),
        (15_000, 24, 27),
        (25_000, 28, 33),
        (25_000, 34, 40),
        (15_000, 41, 50),
        (5_000, 51, 59),
        (4_000, 60, 80),
        (900, 81, 110),
        (100, 111, 200),
    ]),
    value_bytes: Lengths::new(&[
        (19_000, 2, 2),
        (10_000, 3, 3),
        (2_000, 4, 10),
        (11_000, 11, 11),
        (8_000, 12, 32),
        (15_000, 33, 100),
        (15_000, 101, 250),
        (14_000, 251, 400),
        (5_000, 401, 512),
        (800, 513, 1024),
        (198, 1025, 4096),
        (2, 900_000, 1_000_000),
    ]),
    gets_per_key_hour: 3.5,
    residents: Residents::Popular(&LONG_TAIL),
    fills: 0.5,
    fills_new_keys: false,
    revisits: 0.72,
};

/// Key p99 30, value p99 200, compulsory misses only (F).
static VAR: Parameters = Parameters {
    name: "fb-var",
    mix: [18.0, 82.0, 0.0],
    gets_per_s: 73_700.0,
    hits: 93.7,
    misses: [100.0, 0.0, 0.0],
    key_bytes: Lengths::new(&[(30_000, 18, 21), (50_000, 22, 25), (19_000, 26, 30), (1_000, 31, 40)]),
    value_bytes: Lengths::new(&[
        (5_000, 2, 10),
        (45_000, 11, 50),
        (40_000, 51, 120),
        (9_000, 121, 200),
        (1_000, 201, 400),
    ]),
    gets_per_key_hour: 2.0,
    residents: Residents::Popular(&LONG_TAIL),
    fills: 1.0,
    fills_new_keys: true,
    revisits: 0.0,
};

/// Key p99 45; value p99 640, those of 320 bytes take 8 % of the memory and those of nearly 500 bytes
/// about 80 %; compulsory misses only; 65 % of the keys hardly repeat; 99.9 % of the reuse within an
/// hour (F).
static SYS: Parameters = Parameters {
    name: "fb-sys",
    mix: [67.5, 32.5, 0.0],
    gets_per_s: 7_200.0,
    hits: 98.7,
    misses: [100.0, 0.0, 0.0],
    key_bytes: Lengths::new(&[(20_000, 20, 29), (50_000, 30, 39), (29_000, 40, 45), (1_000, 46, 60)]),
    value_bytes: Lengths::new(&[
        (4_500, 10, 100),
        (12_000, 320, 320),
        (2_000, 330, 480),
        (75_500, 490, 499),
        (5_000, 500, 640),
        (1_000, 641, 700),
    ]),
    gets_per_key_hour: 0.85,
    residents: Residents::InTurn { hours: 168.0 },
    fills: 1.0,
    fills_new_keys: true,
    revisits: 0.0,
};
