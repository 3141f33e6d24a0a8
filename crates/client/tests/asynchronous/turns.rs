//! Turns of calls to a server on the same host.

use std::time::Duration;

use micanite_client::{Builder, Error, Options};

use super::{local_server, poll_once};

/// A call that waits for its turn, and whose future nobody polls then, keeps no other call waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_polls_blocks_no_other() -> Result<(), Error> {
    let (server, url) = local_server("turns");
    let options = Options { deadline_ns: 60_000_000_000, ..Options::default() };
    let client = Builder::default().server(&url).options(options).connect_async().await?;
    server.stop();
    let mut first = Box::pin(client.set(b"sum", b"1", 0, 0));
    assert!(poll_once(&mut first).await.is_none());
    let mut asleep = Box::pin(client.increment(b"sum", 1));
    assert!(poll_once(&mut asleep).await.is_none());
    server.resume();
    first.await?;
    let next = tokio::time::timeout(Duration::from_secs(30), client.set(b"other", b"value", 0, 0)).await;
    next.expect("it has its turn")?;
    assert_eq!(asleep.await?, Some(2));
    Ok(())
}
