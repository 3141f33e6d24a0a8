//! The client for tokio over a fabric.

use micanite_client::{Builder, Client, Error, Options};
use tokio::sync::mpsc::error::TryRecvError;

use super::{DEADLINE_NS, Fabric};

/// Proves that tasks of tokio share one client over a fabric.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_a_client() -> Result<(), Error> {
    let server = Fabric::start("tcp;ofi_rxm", "");
    let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
    let client = Builder::default().server(&server.url).options(options).connect_async().await?;
    client.set(b"sum", b"0", 0, 0).await?;
    let task = |number: u64| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..20 {
                let key = format!("key {number} {round}");
                client.set(key.as_bytes(), key.as_bytes(), 3, 0).await?;
                for _ in 0..3 {
                    let found = client.get(key.as_bytes()).await?.unwrap_or_default();
                    assert_eq!((found.bytes, found.flags), (key.clone().into_bytes(), 3));
                }
                assert!(client.increment(b"sum", 1).await?.is_some());
                assert!(client.delete(key.as_bytes()).await?);
            }
            Ok::<_, Error>(())
        })
    };
    let tasks: Vec<_> = (0..32).map(task).collect();
    for task in tasks {
        task.await.unwrap()?;
    }
    assert_eq!(client.get(b"sum").await?.unwrap_or_default().bytes, b"640");
    Ok(())
}

/// Proves that calls that wait for room at a server that stands still keep no call to another one waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_does_not_block_the_others() -> Result<(), Error> {
    let servers = [Fabric::start("tcp;ofi_rxm", ""), Fabric::start("tcp;ofi_rxm", "")];
    let options = Options { deadline_ns: 5_000_000_000, ..Options::default() };
    let list = servers.iter().fold(Builder::default(), |list, server| list.server(&server.url));
    let client = list.options(options).connect_async().await?;
    let url = servers[0].url.clone();
    let mut alone = tokio::task::spawn_blocking(move || Client::connect(&url)).await.unwrap()?;
    let (mut still, mut lives) = (None, None);
    for number in 0..30_u64 {
        let key = number.to_le_bytes();
        client.set(&key, b"0", 0, 0).await?;
        let found = alone.get(&key)?;
        *(if found.is_some() { &mut still } else { &mut lives }) = Some(key);
    }
    let (still, lives) = (still.unwrap(), lives.unwrap());
    servers[0].server.as_ref().unwrap().stop();
    let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..400 {
        let (client, ends) = (client.clone(), ends.clone());
        tokio::spawn(async move { ends.send(client.increment(&still, 1).await) });
    }
    drop(ends);
    for _ in 0..20 {
        assert_eq!(client.get(&lives).await?.unwrap_or_default().bytes, b"0");
    }
    let is_early = ended.try_recv();
    assert!(matches!(is_early, Err(TryRecvError::Empty)), "{is_early:?}");
    let mut lost = 0;
    while let Some(answer) = ended.recv().await {
        assert!(answer.is_err(), "{answer:?}");
        lost += 1;
    }
    assert_eq!(lost, 400);
    servers[0].server.as_ref().unwrap().resume();
    Ok(())
}
