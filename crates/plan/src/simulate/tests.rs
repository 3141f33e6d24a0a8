use proptest::prelude::*;

use super::*;

/// A core whose datagrams take a microsecond, one request each, one per receive.
fn core(load: f64, service: fn(f64) -> Service) -> Core {
    Core {
        rate: load * 1e6,
        batch: 1,
        service: service(1e-6),
        receive_max: 1,
        arrivals: Arrivals::Poisson,
        pause: None,
    }
}

fn run(core: &Core, requests: u64, seed: u64) -> Outcome {
    core.simulate(requests, seed, &mut |_| ())
}

/// Time in the system of M/D/1 in services (Pollaczek and Khinchine).
fn m_d_1(load: f64) -> f64 {
    1.0 + load / (2.0 * (1.0 - load))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    /// M/D/1 and M/M/1 have the means of their formulas.
    #[test]
    fn means_are_those_of_the_formulas(load in 0.05f64..0.85, seed in any::<u64>()) {
        let fixed = run(&core(load, Service::Fixed), 1_000_000, seed).times.mean() * 1e6;
        prop_assert!((fixed / m_d_1(load) - 1.0).abs() < 0.05, "M/D/1 at {load}: {fixed}");
        let random = run(&core(load, Service::Exponential), 1_000_000, seed).times.mean() * 1e6;
        prop_assert!((random * (1.0 - load) - 1.0).abs() < 0.08, "M/M/1 at {load}: {random}");
    }

    /// Little's law: datagrams in the system are the rate times the mean time, whatever the load is like.
    #[test]
    fn littles_law(
        load in 0.05f64..0.9, burst in 1u32..20, receive_max in 1usize..64, seed in any::<u64>(),
    ) {
        let core = Core { arrivals: Arrivals::Bursts(burst), receive_max, ..core(load, Service::Fixed) };
        let outcome = run(&core, 400_000, seed);
        let expected = outcome.rate * outcome.times.mean();
        prop_assert!((outcome.in_system / expected - 1.0).abs() < 0.02, "{} {expected}", outcome.in_system);
    }

    /// The same seed gives the same result, another seed another one.
    #[test]
    fn a_seed_repeats(load in 0.1f64..0.9, seed in any::<u64>()) {
        let core = core(load, Service::Exponential);
        prop_assert_eq!(run(&core, 20_000, seed), run(&core, 20_000, seed));
        prop_assert_ne!(run(&core, 20_000, seed).times, run(&core, 20_000, seed ^ 1).times);
    }

    /// Utilisation is the offered load.
    #[test]
    fn utilisation_is_the_load(load in 0.05f64..0.95, seed in any::<u64>()) {
        let outcome = run(&core(load, Service::Fixed), 300_000, seed);
        prop_assert!((outcome.utilisation / load - 1.0).abs() < 0.03, "{} {load}", outcome.utilisation);
    }
}

/// M/M/1 has exponential times: its 95th percentile is ln 20 means.
#[test]
fn percentiles_of_an_exponential_queue() {
    let times = run(&core(0.7, Service::Exponential), 3_000_000, 3).times;
    let expected = 20f64.ln() / 0.3;
    assert!((times.quantile(0.95) * 1e6 / expected - 1.0).abs() < 0.05);
}

/// Weighted rare pauses give the tail that frequent simulation of the same pauses gives.
#[test]
fn rare_pauses_have_their_weight() {
    let mut core = core(0.5, Service::Fixed);
    core.pause = Some(Pause { every_s: 0.02, length_s: 200e-6 });
    // Half a second is too short for direct simulation, and five seconds are not.
    let weighted = run(&core, 400_000, 5).times;
    let direct = run(&core, 4_000_000, 5).times;
    for part in [0.985, 0.99, 0.995] {
        let (weighted, direct) = (weighted.quantile(part), direct.quantile(part));
        assert!((weighted / direct - 1.0).abs() < 0.15, "{part}: {weighted} {direct}");
    }
    assert!((weighted.mean() / direct.mean() - 1.0).abs() < 0.15);
}

/// A receive of several datagrams brings more of them under load.
#[test]
fn receives_grow_with_the_load() {
    let at = |load| {
        let core = Core { receive_max: 32, ..core(load, Service::Fixed) };
        run(&core, 200_000, 1).per_receive
    };
    assert!(at(0.1) < 1.2 && at(0.98) > 4.0, "{} {}", at(0.1), at(0.98));
}

/// A rate that changes makes queues where it is high.
#[test]
fn peaks_make_queues() {
    let steady = core(0.6, Service::Fixed);
    let peaks = Core { arrivals: Arrivals::Profile(vec![0.5, 1.5]), ..steady.clone() };
    let p99 = |core: &Core| run(core, 400_000, 2).times.quantile(0.99);
    assert!(p99(&peaks) > 1.5 * p99(&steady));
}

/// A core without arrivals has no times, and its simulation ends.
#[test]
fn a_core_without_arrivals_is_idle() {
    for rate in [0.0, f64::NAN, f64::INFINITY] {
        let core = Core { rate, ..core(0.5, Service::Fixed) };
        assert_eq!(run(&core, 1000, 1), Outcome::default());
    }
}
