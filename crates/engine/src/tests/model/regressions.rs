//! Short runs that the engine once failed.

use super::*;
use crate::limits::NAMESPACES_MAX;

fn set(model: &mut Model, key: usize, value_bytes: usize) {
    let store = Action::Store {
        condition: Condition::Always,
        value: vec![b'v'; value_bytes],
        flags: 0,
        expiry: Expiry::NEVER,
    };
    model.ask(key, store);
}

#[test]
fn a_get_and_touch_with_a_past_expiry_returns_the_item_once() {
    for geometry in [cache_geometry(0, 0), store_geometry(0, 1)] {
        let mut model = Model::new(&geometry, 1);
        set(&mut model, 0, 10);
        let expiry = Expiry::PAST;
        model.ask(0, Action::GetAndTouch { expiry, cas: true });
        assert_eq!(model.tally().hits, 1);
        model.ask(0, Action::Get { cas: false });
        assert_eq!(model.tally().hits, 1);
    }
}

#[test]
fn upkeep_moves_nothing_in_main_for_items_deleted_from_the_small_log() {
    let main_tail = |model: &Model| {
        let partition = &model.workers.cache().partitions[0];
        let main = partition.log(crate::log::LogKind::Main);
        main.get(crate::region::LogField::Tail)
    };
    // The small log takes the first items, main the rest.
    let mut model = Model::new(&cache_geometry(1, 0), 24);
    for key in 0..24 {
        set(&mut model, key, 40);
    }
    for key in 0..10 {
        model.ask(key, Action::Delete);
    }
    assert!(model.stats().early_bytes * 100 > 6 * 1024 * 8);
    let tail = main_tail(&model);
    model.workers.maintain();
    assert_eq!(main_tail(&model), tail);
}

#[test]
fn a_due_flush_is_done_before_the_next_one_is_scheduled() {
    for geometry in [cache_geometry(0, 0), store_geometry(0, 1)] {
        let mut model = Model::new(&geometry, 1);
        set(&mut model, 0, 10);
        model.flush(1);
        model.pass_time(2);
        model.flush(1);
        model.ask(0, Action::Get { cas: false });
        assert_eq!(model.tally().hits, 0);
    }
}

/// Proves that a flush which the first batch at its second has done survives a kill.
#[test]
#[cfg_attr(miri, ignore = "maps memory")]
fn a_flush_is_done_by_the_first_batch_at_its_second_and_survives_a_kill() {
    for geometry in [cache_geometry(0, 2), store_geometry(0, 2)] {
        let mut model = Model::new(&geometry, 1);
        set(&mut model, 0, 10);
        model.flush(2);
        model.pass_time(2);
        model.reopen(false);
        model.ask(0, Action::Get { cas: false });
        assert_eq!(model.tally().hits, 0);
    }
}

#[test]
fn a_namespace_stays_invalid_after_rounds_that_clear_dangling_entries_only() {
    let append = |model: &mut Model, items: usize| {
        for key in 4..4 + items {
            model.ask(key, Action::Delete);
            set(model, key, 20);
        }
    };
    let mut model = Model::new(&cache_geometry(3, 4), 100);
    for round in 0..400 {
        append(&mut model, round % 7 * 8);
        let namespaces = [(0, "a"), (1, "b"), (2, "c")];
        for (key, name) in namespaces {
            set(&mut model, key, 10);
            model.invalidate(name);
        }
        model.workers.maintain();
        append(&mut model, round % 11 * 6);
        model.workers.maintain();
        for empty in 0..NAMESPACES_MAX {
            model.invalidate(&format!("empty-{round}-{empty}"));
        }
        for (key, _) in namespaces {
            model.ask(key, Action::Get { cas: false });
        }
        // The table of namespaces is free again.
        for _ in 0..4 {
            model.workers.maintain();
        }
    }
}
