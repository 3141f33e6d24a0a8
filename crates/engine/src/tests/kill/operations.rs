//! Every operation that writes an item, in a row.

use super::*;

pub(super) fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("key-{number}").into_bytes()).collect()
}

pub(super) fn set<'a>(value: &'a [u8], expiry_s: u32) -> Operation<'a> {
    store(Condition::Always, value, 5, expiry_s)
}

/// Runs every operation that writes, on an item of some length.
pub(super) fn every_operation(killed: &mut Killed, key: &[u8], value_bytes: usize) {
    let cas = |client: &mut Client| client.ask(key, Operation::Get { cas: true }).cas;
    let mut run = |name: &str, operation: Operation<'_>, expected: Outcome| {
        let outcome = killed.at_each_store(name, |client| client.outcome(key, operation));
        assert_eq!(outcome, expected, "{name}");
        cas(&mut killed.client)
    };
    let fill = |letter: u8, more: usize| vec![letter; value_bytes + more];
    run("set anew", set(&fill(b'a', 0), 0), Outcome::Stored);
    run("overwrite, equal", set(&fill(b'b', 0), 0), Outcome::Stored);
    run("overwrite, longer", set(&fill(b'c', 9), 0), Outcome::Stored);
    run("overwrite, shorter", set(&fill(b'd', 0)[..1], 0), Outcome::Stored);
    run("append", Operation::Append { value: b"tail" }, Outcome::Stored);
    run("prepend", Operation::Prepend { value: &fill(b'h', 0) }, Outcome::Stored);
    let now = run("touch, no room", Operation::Touch { expiry: Expiry(5000) }, Outcome::Touched);
    run("touch", Operation::Touch { expiry: Expiry(6000) }, Outcome::Touched);
    let unchanged = store(Condition::Unchanged(now), b"by cas", 1, 5000);
    run("cas", unchanged, Outcome::Stored);
    run("replace", store(Condition::Present, b"17", 2, 5000), Outcome::Stored);
    run("incr", Operation::Increment { delta: 1 }, Outcome::Number(18));
    run("incr, longer", Operation::Increment { delta: 982 }, Outcome::Number(1000));
    run("decr", Operation::Decrement { delta: 999 }, Outcome::Number(1));
    run("get and touch", Operation::GetAndTouch { expiry: Expiry(7000), cas: true }, Outcome::Hit);
    let arithmetic = MetaArithmetic {
        delta: 5,
        cas: true,
        new_cas: 77,
        touch: Some(Expiry(8000)),
        ..MetaArithmetic::default()
    };
    run("meta arithmetic", Operation::MetaArithmetic(arithmetic), Outcome::Number(6));
    let invalidate = MetaDelete { invalidate: true, expiry: Some(Expiry(9000)), ..MetaDelete::default() };
    run("invalidate", Operation::MetaDelete(invalidate), Outcome::Deleted);
    let token = MetaGet { value: true, touch: Some(Expiry(9500)), access: true, ..MetaGet::default() };
    run("token, touch and access", Operation::MetaGet(token), Outcome::Hit);
    killed.client.now_s += 1;
    let mut run = |name: &str, operation: Operation<'_>, expected: Outcome| {
        let outcome = killed.at_each_store(name, |client| client.outcome(key, operation));
        assert_eq!(outcome, expected, "{name}");
    };
    run("access", Operation::Get { cas: false }, Outcome::Hit);
    let meta = MetaStore {
        value: b"meta",
        flags: 9,
        expiry: Expiry(5000),
        cas: true,
        new_cas: 99,
        ..MetaStore::default()
    };
    run("meta set", Operation::MetaStore(meta), Outcome::Stored);
    let append = MetaStore { value: b"more", mode: StoreMode::AppendOrSet, ..MetaStore::default() };
    run("meta append", Operation::MetaStore(append), Outcome::Stored);
    let empty = MetaDelete { empty: Some(3), ..MetaDelete::default() };
    run("empty", Operation::MetaDelete(empty), Outcome::Deleted);
    run("delete", Operation::Delete, Outcome::Deleted);
    let vivify = MetaGet { value: true, vivify: Some(Expiry(5000)), ..MetaGet::default() };
    run("vivify", Operation::MetaGet(vivify), Outcome::Stored);
    run("meta delete", Operation::MetaDelete(MetaDelete::default()), Outcome::Deleted);
}
