//! Short runs of every kind, which a failure shrinks; and runs that repeat offsets.

use proptest::prelude::*;

use super::*;

/// Keys for which the roomy store has room, whatever is stored under them.
const KEYS_OF_ROOMY_STORE: usize = 120;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_cache_returns_no_wrong_value(
        shape in 0..CACHE_SHAPES,
        drawn in 0usize..210,
        keys in 1usize..60,
        steps in prop::collection::vec(any::<u64>(), 1..600),
    ) {
        let mut model = Model::new(&cache_geometry(shape, drawn), keys);
        steps.iter().for_each(|step| model.step(*step));
        model.clear();
    }

    #[test]
    fn the_store_loses_nothing_that_it_acknowledged(
        shape in 0..STORE_SHAPES,
        drawn in 0usize..42,
        keys in 1usize..KEYS_OF_ROOMY_STORE,
        steps in prop::collection::vec(any::<u64>(), 1..600),
    ) {
        let mut model = Model::new(&store_geometry(shape, drawn), keys);
        steps.iter().for_each(|step| model.step(*step));
        model.clear();
        if shape == 0 {
            prop_assert_eq!(model.tally().refused, 0);
        }
    }
}

/// Runs long enough for offsets to repeat hundreds of times: a dangling entry that became valid
/// again would answer with another item's bytes, or with one that the model has lost.
#[test]
fn dangling_entries_are_cleared_before_offsets_repeat() {
    for drawn in 0..10 {
        let geometry = cache_geometry(3, drawn);
        let mut model = Model::new(&geometry, 997);
        let lap_units = 1u64 << geometry.offset_bits;
        let mut written_units = 0;
        let mut round = 0u32;
        while written_units < 100 * lap_units {
            round += 1;
            let value_bytes = (round % 40) as usize;
            let value = model.value(value_bytes, false);
            let store =
                Action::Store { condition: Condition::Always, value, flags: 0, expiry: Expiry::NEVER };
            model.ask((round.wrapping_mul(2_654_435_761) % 997) as usize, store);
            written_units += 2 + value_bytes as u64 / 8;
            let cas = round.is_multiple_of(5);
            let asked = round.wrapping_mul(40_503) % 997;
            model.ask(asked as usize, Action::Get { cas });
        }
        model.audit();
        assert!(model.stats().dangling_cleared > 0);
    }
}
