//! Long values, which go over the stream of their server one after the other.

use std::time::Duration;

use micanite_client::{Builder, Error, Options};

use super::common::Server;
use super::poll_once;

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
            assert!(poll_once(set).await.is_none());
        }
        // The client's task has passed all before on.
        assert!(matches!(client.get(b"").await, Err(Error::BadKey)));
        for set in &mut sets {
            assert!(poll_once(set).await.is_none());
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
