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
