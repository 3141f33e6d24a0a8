//! Write-back, killed at every store: a value that only a chunk had is gone afterwards, and never an older
//! one is there.

use super::*;
use crate::tests::chunks::*;

/// Values of a key after a kill at each store of an operation, which is watched.
fn values_after_kills(
    setup: &Setup,
    client: &mut Client,
    run: impl FnOnce(&mut Client),
) -> Vec<Option<Vec<u8>>> {
    let cache = client.cache();
    let found = Rc::new(RefCell::new(Vec::new()));
    let (setup, of, into) = (Setup { area: None, ..*setup }, Arc::clone(&cache), Rc::clone(&found));
    let now_s = client.now_s;
    let kill = move || {
        let seen = recovered(&setup, &of.partitions[0], &[KEY.to_vec(), OTHER.to_vec()], now_s);
        let other = seen.get(OTHER).map(|item| item.value.clone());
        assert_eq!(other.as_deref(), Some(b"other".as_slice()), "a clean item is lost");
        into.borrow_mut().push(seen.get(KEY).map(|item| item.value.clone()));
    };
    let after = kill.clone();
    watch(&cache.partitions[0].region, kill, || run(client));
    after();
    found.take()
}

#[test]
fn a_value_that_was_in_a_chunk_only_is_gone_after_a_kill_and_no_older_one_is_there() {
    let setup = Setup { area: Some(ChunkWrite::Back), ..Setup::default() };
    let cache = setup.cache();
    let mut client = Client::new(&cache, 0);
    client.set(OTHER, b"other");
    client.outcome(KEY, store(Condition::Always, b"value 0", 5, 5000));
    client.entry_of(KEY);
    let is = |value: &'static [u8]| move |seen: &Option<Vec<u8>>| seen.as_deref() == Some(value);
    let is_gone = |seen: &Option<Vec<u8>>| seen.is_none();

    // The old value may be there as long as the store has not returned.
    let mut seen = values_after_kills(&setup, &mut client, |client| client.store_entry(KEY, b"value 1"));
    assert!(is_gone(&seen.pop().unwrap()), "acknowledged");
    let end = seen.iter().position(is_gone).unwrap();
    assert!(seen[..end].iter().all(is(b"value 0")) && seen[end..].iter().all(is_gone), "{seen:?}");
    assert_eq!(cache.dirty_chunks(), 1);

    let seen = values_after_kills(&setup, &mut client, |client| client.store_entry(KEY, b"value 2"));
    assert!(seen.iter().all(is_gone), "{seen:?}");
    let seen = values_after_kills(&setup, &mut client, |client| drop(client.get(KEY)));
    assert!(seen.iter().all(is_gone), "{seen:?}");

    // The copy back is there as a whole, or not at all.
    let seen = values_after_kills(&setup, &mut client, |client| {
        client.outcome(KEY, Operation::Get { cas: true });
    });
    let begin = seen.iter().position(is(b"value 2")).unwrap();
    assert!(seen[..begin].iter().all(is_gone) && seen[begin..].iter().all(is(b"value 2")), "{seen:?}");
}

#[test]
fn changes_of_dirty_items_leave_no_older_value_after_a_kill() {
    type Change = fn(&mut Client) -> Outcome;
    let changes: [(Change, Option<&[u8]>); 5] = [
        (|client| client.set(KEY, b"newest!"), Some(b"newest!")),
        (|client| client.set(KEY, &[b'n'; 100]), Some(&[b'n'; 100])),
        (|client| client.outcome(KEY, Operation::Delete), None),
        (|client| client.outcome(KEY, Operation::Append { value: b"more" }), Some(b"value 1more")),
        (|client| client.outcome(KEY, Operation::Touch { expiry: Expiry(2000) }), Some(b"value 1")),
    ];
    for (change, last) in changes {
        let setup = Setup { area: Some(ChunkWrite::Back), ..Setup::default() };
        let mut client = Client::new(&setup.cache(), 0);
        client.set(OTHER, b"other");
        client.set(KEY, b"value 0");
        client.entry_of(KEY);
        client.store_entry(KEY, b"value 1");
        let seen = values_after_kills(&setup, &mut client, |client| {
            let outcome = change(client);
            assert!(matches!(outcome, Outcome::Stored | Outcome::Deleted | Outcome::Touched), "{outcome:?}");
        });
        assert_eq!(seen.last().unwrap().as_deref(), last, "an acknowledged change");
        for value in seen.iter().flatten() {
            let newer: [&[u8]; 4] = [b"value 1", b"newest!", &[b'n'; 100], b"value 1more"];
            assert!(newer.contains(&value.as_slice()), "{}", value.escape_ascii());
        }
    }
}
