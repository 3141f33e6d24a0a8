//! Each call of the blocking client, over any transport.

use micanite_client::{CasOutcome, Client, Error};

/// Makes each call of the blocking client, and checks its result.
pub fn every_call_works(client: &mut Client) -> Result<(), Error> {
    client.noop()?;
    assert_eq!(client.get(b"a")?, None);
    client.set(b"a", b"value", 7, 0)?;
    for _ in 0..3 {
        let found = client.get(b"a")?.unwrap();
        assert_eq!((&found.bytes[..], found.flags, found.cas), (&b"value"[..], 7, None));
    }
    assert!(!client.add(b"a", b"other", 0, 0)?);
    assert!(client.add(b"b", b"other", 0, 0)?);
    assert!(client.replace(b"b", b"5", 0, 0)?);
    assert!(!client.replace(b"c", b"5", 0, 0)?);
    assert_eq!(client.get(b"b")?.unwrap().bytes, b"5");
    assert_eq!(client.increment(b"b", 37)?, Some(42));
    assert_eq!(client.get(b"b")?.unwrap().bytes, b"42");
    assert_eq!(client.decrement(b"b", 100)?, Some(0));
    // It keeps its length, as in memcached.
    assert_eq!(client.get(b"b")?.unwrap().bytes, b"0 ");
    assert_eq!(client.increment(b"c", 1)?, None);
    assert!(matches!(client.increment(b"a", 1), Err(Error::NotANumber)));
    assert!(client.append(b"a", b">")? && client.prepend(b"a", b"<")?);
    assert_eq!(client.get(b"a")?.unwrap().bytes, b"<value>");
    let unique = client.gets(b"a")?.unwrap().cas.unwrap();
    assert_eq!(client.cas(b"a", b"new", unique, (0, 0))?, CasOutcome::Stored);
    assert_eq!(client.cas(b"a", b"new", unique, (0, 0))?, CasOutcome::Exists);
    assert_eq!(client.cas(b"c", b"new", unique, (0, 0))?, CasOutcome::NotFound);
    assert!(client.touch(b"a", 1000)? && !client.touch(b"c", 1000)?);
    assert_eq!(client.get_and_touch(b"a", 0)?.unwrap().bytes, b"new");
    assert_eq!(client.get(b"a")?.unwrap().bytes, b"new");
    assert!(client.delete(b"a")? && !client.delete(b"a")? && client.delete(b"b")?);
    assert_eq!(client.get(b"a")?, None);
    assert!(matches!(client.get(&[b'k'; 251]), Err(Error::BadKey)));
    Ok(())
}

const DAY_S: u32 = 24 * 60 * 60;
/// Seconds that a busy machine may take.
const SLACK_S: u64 = 600;

/// Stores with expiries of every size, which are seconds from now on every link. `ttl` returns how many
/// seconds are left to a key.
pub fn expiries_are_seconds_from_now(client: &mut Client, ttl: impl Fn(&[u8]) -> u64) -> Result<(), Error> {
    for expiry_s in [DAY_S, 30 * DAY_S, 60 * DAY_S, 20 * 365 * DAY_S] {
        let (key, long) = (expiry_s.to_string().into_bytes(), format!("long {expiry_s}").replace(' ', "-"));
        client.set(&key, b"value", 0, expiry_s)?;
        // It is longer than a datagram.
        client.set(long.as_bytes(), &[b'x'; 5000], 0, expiry_s)?;
        client.set(b"touched", b"value", 0, 0)?;
        assert!(client.touch(b"touched", expiry_s)?);
        for key in [&key, long.as_bytes(), b"touched"] {
            assert!(client.get(key)?.is_some(), "{expiry_s}");
            // A date from the client's clock may be a second ahead of the server's.
            let expected = u64::from(expiry_s) - SLACK_S..=u64::from(expiry_s) + 1;
            assert!(expected.contains(&ttl(key)), "{expiry_s}: {}", ttl(key));
        }
    }
    let too_far = 80 * 365 * DAY_S;
    let mut refused = vec![
        client.set(b"never", b"value", 0, too_far).unwrap_err(),
        client.set(b"never", &[b'x'; 5000], 0, too_far).unwrap_err(),
        client.add(b"never", b"value", 0, too_far).unwrap_err(),
        client.touch(b"touched", too_far).unwrap_err(),
        client.get_and_touch(b"touched", u32::MAX).unwrap_err(),
    ];
    refused.retain(|error| !matches!(error, Error::ExpiryTooFar));
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(client.get(b"never")?, None);
    assert!(client.get(b"touched")?.is_some());
    Ok(())
}
