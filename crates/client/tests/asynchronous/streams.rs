//! Long values, which go over the stream of their server one after the other.

use std::time::Duration;

use micanite_client::{AsyncClient, Builder, Error, Options};

use super::common::Server;
use super::poll_once;

/// Polls a call with a long value until it has its turn or waits for it.
async fn has_begun<F: Future<Output: std::fmt::Debug> + Unpin>(client: &AsyncClient, call: &mut F) {
    for _ in 0..2 {
        let ended = poll_once(call).await;
        assert!(ended.is_none(), "{ended:?}");
        // The client's task has passed all before on.
        assert!(matches!(client.get(b"").await, Err(Error::BadKey)));
    }
}

/// Many long values wait for their turn at a server that stands still, and leave a thread to others that
/// block.
#[test]
fn long_values_that_wait_take_no_threads() -> Result<(), Error> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let server = Server::start("-t 1");
        let options = Options { deadline_ns: 30_000_000_000, ..Options::default() };
        let client = Builder::default().server(&server.native).options(options).connect_async().await?;
        let value = vec![b'v'; 100_000];
        client.set(b"key", &value, 0, 0).await?;
        server.stop();
        let mut sets: Vec<_> = (0..20).map(|_| Box::pin(client.set(b"key", &value, 0, 0))).collect();
        for set in &mut sets {
            has_begun(&client, set).await;
        }
        let other = tokio::task::spawn_blocking(|| ());
        let ended = tokio::time::timeout(Duration::from_secs(15), other).await;
        server.resume();
        assert!(ended.is_ok(), "the calls have taken all threads");
        for set in sets {
            set.await?;
        }
        Ok(())
    })
}

/// Long values whose callers have lost interest while they waited for their turn are not stored: one of them
/// would overwrite what a later call has stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_long_values_are_not_stored() -> Result<(), Error> {
    let server = Server::start("-t 1");
    let options = Options { deadline_ns: 30_000_000_000, ..Options::default() };
    let client = Builder::default().server(&server.native).options(options).connect_async().await?;
    let value = |byte: u8| vec![byte; 100_000];
    client.set(b"key", &value(b'0'), 0, 0).await?;
    server.stop();
    let long = value(b'1');
    let mut first = Box::pin(client.set(b"other", &long, 0, 0));
    has_begun(&client, &mut first).await;
    for _ in 0..20 {
        has_begun(&client, &mut Box::pin(client.set(b"key", &long, 0, 0))).await;
    }
    server.resume();
    first.await?;
    // It has its turn after all that were waiting.
    client.set(b"last", &long, 0, 0).await?;
    assert_eq!(client.get(b"key").await?.unwrap_or_default().bytes, value(b'0'));
    Ok(())
}
