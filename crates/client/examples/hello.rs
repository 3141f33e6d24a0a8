//! Stores and gets values: `cargo run -p micanite-client --example hello -- 127.0.0.1:11300`

use micanite_client::{CasOutcome, Client, Error};

fn main() -> Result<(), Error> {
    let server = std::env::args().nth(1);
    let mut client = Client::connect(server.as_deref().unwrap_or("127.0.0.1:11300"))?;

    client.set(b"greeting", b"hello", 0, 60)?;
    let found = client.get(b"greeting")?.unwrap_or_default();
    println!("{}", String::from_utf8_lossy(&found.bytes));

    client.set(b"visits", b"41", 0, 0)?;
    println!("{:?}", client.increment(b"visits", 1)?);

    let read = client.gets(b"visits")?.unwrap_or_default();
    let unique = read.cas.unwrap_or_default();
    assert_eq!(client.cas(b"visits", b"7", unique, (0, 0))?, CasOutcome::Stored);
    assert_eq!(client.cas(b"visits", b"8", unique, (0, 0))?, CasOutcome::Exists);

    // Longer than a datagram, so it automatically uses TCP.
    let long = vec![b'x'; 100_000];
    client.set(b"long", &long, 0, 0)?;
    assert_eq!(client.get(b"long")?.unwrap_or_default().bytes, long);

    for value in client.multi_get(&[b"greeting", b"visits", b"nothing"])? {
        println!("{:?}", value.map(|value| value.bytes.len()));
    }
    println!("{:?}", client.link().map(|link| link.counters()));
    Ok(())
}
