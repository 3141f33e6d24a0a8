use super::*;
use crate::law::Law;
use crate::model::capacity::Bottleneck;
use crate::model::hottest::{maxima, ordered_loads};

/// Errors that the document states: what is fitted, then what is predicted, in percent.
fn within(checks: &[Check], bounds: &[(&str, f64)]) {
    for (name, bound) in bounds {
        let check = checks.iter().find(|check| check.name == *name).unwrap_or_else(|| panic!("{name}"));
        assert!(check.error().abs() * 100.0 <= *bound, "{name}: {:+.1} %", check.error() * 100.0);
    }
}

/// Half of the points are fitted, with six parameters.
#[test]
fn half_of_the_points_are_fitted() {
    let kinds: Vec<&str> =
        THROUGHPUT.iter().map(|row| row.2).chain(LATENCY.iter().map(|row| row.0)).collect();
    let fitted = kinds.iter().filter(|kind| **kind == FITTED).count();
    assert_eq!((kinds.len(), fitted, PARAMETERS.len()), (22, 11, 6));
}

/// Formulas are within 2 % of the paper, memory traffic within 3 %, except where the document explains why
/// not.
#[test]
fn formulas_are_those_of_the_paper() {
    let unexplained = |check: &Check| {
        let is_explained = check.name.starts_with("hottest") || check.name.contains("250 M/s");
        let bound = if check.name.starts_with("memory read") { 0.03 } else { 0.02 };
        !is_explained && check.error().abs() > bound
    };
    let wrong: Vec<_> = formulas().into_iter().filter(unexplained).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Throughput of the lab: fitted within 7 %, predicted within 11 %.
#[test]
fn throughput_of_the_lab() {
    for check in throughput().iter().filter(|check| check.unit.starts_with("million")) {
        let bound = if check.kind == FITTED { 0.07 } else { 0.11 };
        assert!(check.error().abs() < bound, "{}: {:+.1} %", check.name, check.error() * 100.0);
    }
}

/// The platform of section 6: within 12 %, and 22 % for CREW-T on four sockets.
#[test]
fn throughput_of_the_platform() {
    let checks = throughput();
    within(
        &checks,
        &[
            ("4 sockets, uniform, EREW", 2.0),
            ("2 sockets, skewed, EREW", 12.0),
            ("4 sockets, skewed, EREW", 12.0),
            ("2 sockets, skewed, 50 % GET, CREW-T", 12.0),
            ("4 sockets, skewed, 50 % GET, CREW-T", 22.0),
        ],
    );
}

/// Latency: the errors that the document states.
#[test]
fn latency_of_the_lab() {
    let checks = latency(8_000_000, &mut |_| ());
    within(
        &checks,
        &[
            ("mean at 10 M/s", 2.0),
            ("p95 at 10 M/s", 15.0),
            ("p99 at 110 M/s", 20.0),
            ("p99.9 at 110 M/s", 60.0),
            ("mean at 120 M/s", 50.0),
            ("p95 at 120 M/s", 20.0),
            ("p99 at 120 M/s", 60.0),
            ("p99.9 at 120 M/s", 20.0),
            ("p95 at 120 M/s, batches of 4", 42.0),
            ("p99 at 151 M/s, batches of 4", 20.0),
            ("p99.9 at 151 M/s, batches of 4", 55.0),
            ("p95 at 167 M/s, batches of 4", 60.0),
            ("p99 at 167 M/s, batches of 4", 30.0),
            ("p99.9 at 167 M/s, batches of 4", 20.0),
        ],
    );
    assert!(checks.iter().all(|check| check.model.is_finite()));
}

/// A figure of the paper for the hottest partition, and which explanation comes within 2 %.
#[derive(Debug, PartialEq)]
struct Explained {
    /// Share of 1,000 hashes whose maximum is within 2 % of the figure.
    hashes: f64,
    /// Expected load if there were 8 Mi keys for each core, over the figure.
    keys_grow: f64,
}

fn explain(partitions: u64, printed: f64) -> Explained {
    let is_near = |maximum: &&f64| (**maximum / printed - 1.0).abs() < 0.02;
    let drawn = maxima(partitions, &Law::new(192 << 20, ZIPF), 1);
    let grown = Law::new(partitions * (8 << 20), ZIPF);
    Explained {
        hashes: drawn.iter().filter(is_near).count() as f64 / drawn.len() as f64,
        keys_grow: expected_over_mean(partitions, grown.share(1)) / printed,
    }
}

/// Section 6.2 prints 1.53, 1.97, 5.8 and 10.6 where the formula gives 1.69, 2.06, 6.5 and 12.0: one hash
/// explains the first two; keys that grow with the cores the last; nothing the third within 2 %.
#[test]
fn figures_of_the_hottest_partition_are_explained() {
    assert!(explain(16, 1.53).hashes > 0.0, "{:?}", explain(16, 1.53));
    assert!(explain(24, 1.97).hashes > 0.05, "{:?}", explain(24, 1.97));
    let third = explain(120, 5.8);
    assert!(third.hashes == 0.0 && third.keys_grow > 1.02, "{third:?}");
    let last = explain(240, 10.6);
    assert!(last.hashes == 0.0 && (last.keys_grow - 1.0).abs() < 0.02, "{last:?}");
}

/// Figure 18: more than 90 % of the 240 cores have less than 20 % of the load of the hottest, the 20
/// coldest less than 12 %.
#[test]
fn loads_of_the_cores() {
    let loads = ordered_loads(240, &Law::new(192 << 20, ZIPF), 1, 40);
    let light = loads.iter().filter(|load| **load < 0.2 * loads[0]).count();
    assert!(light as f64 > 0.9 * 240.0, "{light}");
    assert!(loads[220] < 0.12 * loads[0] && loads[2] < 0.5 * loads[0], "{:?}", &loads[..4]);
}

/// The -T placement: the six hottest cores have 3.5 GHz and the 20 coldest 1.5, which helps.
#[test]
fn turbo_helps_skewed_writes() {
    let machine = Machine::preset("paper-4").unwrap();
    let turbo = machine.turbo.unwrap();
    assert_eq!((turbo.high_cores, turbo.high_ghz, turbo.low_cores, turbo.low_ghz), (6, 3.5, 20, 1.5));
    let at = |mode| Capacity::of(&machine, &load(ZIPF, 1, 0.5), mode).unwrap().throughput;
    let gain = at(Mode::CrewTurbo) / at(Mode::Crew);
    assert!((1.2..1.4).contains(&gain), "{gain}");
    assert!(at(Mode::Crew) > at(Mode::Erew));
}

/// Section 6: the 95th percentile is below 100 us at nine tenths of what four sockets do.
#[test]
fn the_platform_keeps_its_latency() {
    let machine = Machine::preset("paper-4").unwrap();
    let load = load(0.0, 1, 0.95);
    let capacity = Capacity::of(&machine, &load, Mode::Erew).unwrap();
    let question = Question { machine: &machine, load: &load, capacity: &capacity, requests: 1_000_000 };
    let point = question.at(1e9, &mut |_| ()).unwrap();
    assert!(point.latency.p95_us < 100.0, "{point:?}");
    assert!(question.at(2e9, &mut |_| ()).is_none());
}

/// Tiny items bind the cores; larger ones the network (section 5.2).
#[test]
fn larger_items_bind_the_network() {
    let lab = lab(24).unwrap();
    let of = |key_bytes, value_bytes| {
        let load = Load { key_bytes, value_bytes, items: 8 << 20, ..load(0.0, 1, 0.5) };
        Capacity::of(&lab, &load, Mode::Erew).unwrap().bottleneck
    };
    assert_eq!(of(8.0, 8.0), Bottleneck::Cores);
    assert_eq!([of(128.0, 1024.0), of(250.0, 1152.0)], [Bottleneck::Network; 2]);
}

/// More cores never serve less when the load is uniform, nor does a larger cache.
#[test]
fn more_machine_never_serves_less() {
    let at = |cores: u32, llc: f64| {
        let machine = Machine { cores, llc_kib_per_core: llc, ..Machine::preset("paper-1").unwrap() };
        Capacity::of(&machine, &load(0.0, 1, 0.95), Mode::Erew).unwrap().throughput
    };
    let cores: Vec<f64> = (1..80).map(|cores| at(cores, 768.0)).collect();
    assert!(cores.is_sorted(), "{cores:?}");
    let caches: Vec<f64> = [128.0, 256.0, 400.0, 512.0, 768.0, 4096.0].map(|llc| at(60, llc)).into();
    assert!(caches.is_sorted(), "{caches:?}");
}
