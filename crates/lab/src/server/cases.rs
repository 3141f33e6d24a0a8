//! The loads that are put on both servers.

use crate::Common;
use crate::client::Mix;
use crate::popularity::Popularity;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub name: &'static str,
    pub connections: usize,
    pub pipeline: usize,
    pub mix: Mix,
    pub value_bytes: usize,
    pub popularity: Popularity,
    /// memcached splits pipelines of more than 20 unless it is told not to: also beside that.
    pub beside_large_r: bool,
}

impl Case {
    pub fn wants_peer(&self, flags: &[&str]) -> bool {
        flags.is_empty() || self.beside_large_r
    }
}

const GETS: Mix = Mix::Single { set_percent: 0 };
const HALF: Mix = Mix::Single { set_percent: 50 };
const SETS: Mix = Mix::Single { set_percent: 100 };

/// The cases that were asked for, in an order that changes the size of values once.
pub(crate) fn all(common: &Common) -> Vec<Case> {
    let case = |name, connections, pipeline, mix| Case {
        name,
        connections,
        pipeline,
        mix,
        value_bytes: 32,
        popularity: Popularity::Uniform,
        beside_large_r: false,
    };
    let zipf = |case: Case| Case {
        popularity: Popularity::Zipf,
        ..case
    };
    let large_r = |case: Case| Case {
        beside_large_r: true,
        ..case
    };
    let cases = [
        case("50 connections, 1 GET in flight", 50, 1, GETS),
        zipf(case(
            "50 connections, 1 GET in flight, zipf 0.99",
            50,
            1,
            GETS,
        )),
        case("50 connections, 1 in flight, 50 % SET", 50, 1, HALF),
        large_r(case("4 connections, pipelines of 32 GETs", 4, 32, GETS)),
        large_r(case("4 connections, pipelines of 32 SETs", 4, 32, SETS)),
        case("4 connections, multi-get of 10", 4, 10, Mix::MultiGet),
        case("4 connections, multi-get of 100", 4, 100, Mix::MultiGet),
        large_r(Case {
            value_bytes: 1024,
            ..case("4 connections, pipelines of 32 GETs of 1 KiB", 4, 32, GETS)
        }),
    ];
    cases
        .into_iter()
        .filter(|case| common.wants(case.name))
        .collect()
}
