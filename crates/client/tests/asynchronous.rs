//! The client for tokio, against a real server.
#![cfg(feature = "async")]

mod common;

use common::Server;
use micanite_client::{AsyncClient, Builder, CasOutcome, Error, Options};

#[test]
fn server_process() {
    common::serve_if_child();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_a_client() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let client = AsyncClient::connect(&server.native).await?;
    client.set(b"sum", b"0", 0, 0).await?;
    let task = |number: u64| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..50 {
                let key = format!("key {number} {round}");
                client.set(key.as_bytes(), key.as_bytes(), 3, 0).await?;
                let found = client.gets(key.as_bytes()).await?.unwrap_or_default();
                assert_eq!((found.bytes, found.flags), (key.clone().into_bytes(), 3));
                let unique = found.cas.unwrap_or_default();
                let stored = client.cas(key.as_bytes(), b"new", unique).await?;
                assert_eq!(stored, CasOutcome::Stored);
                assert!(client.increment(b"sum", 1).await?.is_some());
                assert!(client.delete(key.as_bytes()).await?);
            }
            Ok::<_, Error>(())
        })
    };
    let tasks: Vec<_> = (0..64).map(task).collect();
    for task in tasks {
        task.await.unwrap()?;
    }
    assert_eq!(client.get(b"sum").await?.unwrap_or_default().bytes, b"3200");

    let long = vec![b'v'; 300_000];
    client.set(b"long", &long, 0, 0).await?;
    assert_eq!(client.get(b"long").await?.unwrap_or_default().bytes, long);
    assert!(matches!(client.get(b"").await, Err(Error::BadKey)));
    Ok(())
}

/// Found by `many_tasks_share_a_client` on a busy machine: if everything in flight was answered
/// before the task looked, a call that had been refused for lack of room waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_room_are_not_forgotten() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let options = Options { datagrams: 1, ..Options::default() };
    let builder = Builder::default().server(&server.native).options(options);
    let client = builder.connect_async().await?;
    let task = |number: u64| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..300 {
                let key = format!("key {number} {round}");
                client.set(key.as_bytes(), &[7; 1000], 0, 0).await?;
            }
            Ok::<_, Error>(())
        })
    };
    let tasks: Vec<_> = (0..32).map(task).collect();
    for task in tasks {
        task.await.unwrap()?;
    }
    Ok(())
}
