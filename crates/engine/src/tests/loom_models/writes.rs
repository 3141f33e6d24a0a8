//! Operations of several steps beside another writer: nothing comes between the steps.

use super::*;

/// Covers that both steps of a get-and-touch have the same writer.
#[test]
fn loom_a_get_and_touch_returns_the_value_that_it_touched() {
    model(|| {
        let cache = tiny(64);
        let [mut first, mut second] = [0, 1].map(|worker| Client::new(&cache, worker));
        second.outcome(b"k", store(Condition::Always, &OLD, 0, 5000));
        let first = thread::spawn(move || {
            let reply = first.ask(b"k", Operation::GetAndTouch { expiry: Expiry(9000), cas: false });
            (reply.value, first)
        });
        second.outcome(b"k", store(Condition::Always, &NEW, 0, 7000));
        let (value, first) = first.join().unwrap();
        let left = second.ask(b"k", Operation::MetaGet(MetaGet::default())).item.expiry;
        assert_eq!(left, Expiry(if value == NEW { 9000 } else { 7000 }));
        drop(first);
    });
}
