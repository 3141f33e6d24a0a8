//! Processes that write until they are killed.

use std::process::Child;
use std::time::{Duration, Instant};

/// Waits until a writer has made so many records. A busy machine makes it slow; it may not stand still.
pub fn await_records(child: &mut Child, records: impl Fn() -> u64, least: u64) {
    let (mut seen, mut since) = (0, Instant::now());
    while seen < least {
        let now = records();
        if now > seen {
            (seen, since) = (now, Instant::now());
        }
        assert!(child.try_wait().unwrap().is_none(), "the writer ended");
        if since.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("the writer stands still");
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}
