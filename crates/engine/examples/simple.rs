//! A cache for any number of threads: store, read, and learn which keys had to leave.
//!
//! `cargo run --package micanite-engine --example simple`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use micanite_engine::SimpleCache;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let evicted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&evicted);
    // 64 MiB, for items and index together.
    let cache = SimpleCache::new(64 << 20)?.on_eviction(move |_key| {
        count.fetch_add(1, Ordering::Relaxed);
    });

    cache.set("greeting", "hello")?;
    assert_eq!(cache.get("greeting"), Some(b"hello".to_vec()));
    assert_eq!(cache.get_many(&["greeting", "nobody"]), [Some(b"hello".to_vec()), None]);

    // More than fits: the cache evicts.
    for number in 0..100_000 {
        cache.set(format!("page {number}"), [0; 1000])?;
    }
    println!("{} of 100000 pages were evicted", evicted.load(Ordering::Relaxed));
    Ok(())
}
