//! Pages that go back.

use loom::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::access::Epochs;

/// A worker that has not seen a hole leaves its batch before the pages go back. It covers the barriers of
/// `Epochs::enter` and `Epochs::now`.
#[test]
fn loom_a_batch_that_has_not_seen_a_hole_finds_its_pages() {
    model(|| {
        let epochs = Arc::new(Epochs::new(2));
        let [is_hole, is_gone] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let worker = {
            let (epochs, is_hole, is_gone) =
                (Arc::clone(&epochs), Arc::clone(&is_hole), Arc::clone(&is_gone));
            thread::spawn(move || {
                epochs.enter(0);
                if !is_hole.load(Ordering::Relaxed) {
                    assert!(!is_gone.load(Ordering::Relaxed));
                }
                epochs.leave(0);
            })
        };
        is_hole.store(true, Ordering::Relaxed);
        let moment = epochs.now();
        if epochs.have_passed(&moment) {
            is_gone.store(true, Ordering::Relaxed);
        }
        worker.join().unwrap();
    });
}

/// A walk that has not seen a hole pins its pages. It covers the order of `Walkers::enter` and
/// `Walkers::without`.
#[test]
fn loom_a_pin_that_has_not_seen_a_hole_keeps_its_pages() {
    model(|| {
        let pages = Arc::new(crate::index::walkers::Walkers::default());
        let [is_hole, is_gone] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let walk = {
            let (pages, is_hole, is_gone) = (Arc::clone(&pages), Arc::clone(&is_hole), Arc::clone(&is_gone));
            thread::spawn(move || {
                let _pin = pages.enter();
                if !is_hole.load(Ordering::Relaxed) {
                    assert!(!is_gone.load(Ordering::Relaxed));
                }
            })
        };
        is_hole.store(true, Ordering::Relaxed);
        pages.without(|| is_gone.store(true, Ordering::Relaxed));
        walk.join().unwrap();
    });
}
