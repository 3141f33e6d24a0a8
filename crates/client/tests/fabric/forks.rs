//! Forks of processes with clients over a fabric.

use micanite_client::{Error, FabricLink, FabricOptions, FabricUrl, Operation, Reads};

use super::Fabric;
use super::children::Child;

/// Proves that children of a fork and their parent go on at the same time, with replies and increments of
/// their own, and that a link fails in the child.
pub fn children_of_a_fork_lose_nothing(provider: &str) -> Result<(), Error> {
    let server = Fabric::start(provider, "");
    let mut client = server.connect(Reads::InnerCache)?;
    client.set(b"sum", b"0", 0, 0)?;
    for number in 0..3_u8 {
        client.set(&[number], &[number; 2000], 0, 0)?;
    }
    let mut works = |number: u8| -> Result<bool, Error> {
        for _ in 0..100 {
            let is_own = client.get(&[number])?.is_some_and(|value| value.bytes == [number; 2000]);
            if !is_own || client.increment(b"sum", 1)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let mut start = |number| Child::start(|| works(number).unwrap_or(false));
    let children = [start(0), start(1)];
    assert!(works(2)?);
    children.into_iter().for_each(Child::end);
    assert_eq!(client.get(b"sum")?.unwrap().bytes, b"300");
    let mut link = FabricLink::connect(&[FabricUrl::parse(&server.url)?], &FabricOptions::default())?;
    Child::start(|| {
        let refused = link.submit(link.now_ns(), &Operation::get(b"sum"), 1).is_err();
        refused && link.poll(link.now_ns(), |_| {}).is_err() && link.wait(1_000_000_000).is_err()
    })
    .end();
    link.submit(link.now_ns(), &Operation::get(b"sum"), 1).unwrap();
    while link.pending() > 0 {
        link.poll(link.now_ns(), |ended| assert_eq!((ended.token, ended.value), (1, &b"300"[..])))?;
        link.wait(1_000_000)?;
    }
    Ok(())
}
