//! What a client was promised holds in every image that is made of another: the one that a closed or killed
//! process leaves, one of another size, a snapshot.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use micanite_engine::*;

const NOW_S: u32 = 1000;
const DUE_S: u32 = NOW_S + 5;
const MIB: usize = 1 << 20;
const KEY: &[u8] = b"key";

/// Ways from one image to the next.
#[derive(Clone, Copy, Debug)]
enum Way {
    Closed,
    Killed,
    Larger,
    LargerAfterKill,
    Smaller,
    Snapshot,
}

const WAYS: [Way; 6] =
    [Way::Closed, Way::Killed, Way::Larger, Way::LargerAfterKill, Way::Smaller, Way::Snapshot];

/// A directory that is removed with its test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The image that is in use, and its process.
struct Image {
    directory: Directory,
    config: Config,
    cache: Arc<Cache>,
    worker: Worker,
}

impl Image {
    fn new(name: &str, semantics: Semantics) -> Self {
        let name = format!("micanite-images-{name}-{semantics:?}-{}", std::process::id());
        let directory = Directory(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&directory.0);
        let config = Config {
            memory_bytes: 8 * MIB,
            partition_bytes_max: 4 * MIB,
            value_bytes_max: 4096,
            semantics,
            image: Some(directory.0.join("image")),
            ..Config::default()
        };
        let (cache, worker) = open(&config);
        Self { directory, config, cache, worker }
    }

    /// Ends the process, and opens the image that it leaves, or a copy.
    fn next(self, way: Way) -> Self {
        let Self { directory, mut config, cache, worker } = self;
        match way {
            Way::Closed | Way::Killed => {}
            Way::Larger | Way::LargerAfterKill => config.memory_bytes += 4 * MIB,
            Way::Smaller => config.memory_bytes -= MIB,
            Way::Snapshot => {
                let copies = fs::read_dir(&directory.0).unwrap().count();
                let copy = directory.0.join(format!("copy-{copies}"));
                assert_eq!(cache.snapshot(&copy, NOW_S).unwrap().left_out, 0);
                config.image = Some(copy);
            }
        }
        if !matches!(way, Way::Killed | Way::LargerAfterKill) {
            cache.close().unwrap();
        }
        drop((cache, worker));
        let (cache, worker) = open(&config);
        assert!(cache.image_state().is_kept(), "{way:?}");
        Self { directory, config, cache, worker }
    }

    fn set(&mut self, value: &[u8], now_s: u32) {
        assert_eq!(self.worker.set(KEY, value, Expiry::NEVER, now_s), Outcome::Stored);
    }

    fn get(&mut self, now_s: u32) -> Option<Vec<u8>> {
        self.worker.get_with(KEY, now_s, |value, _| value.to_vec()).unwrap()
    }
}

fn open(config: &Config) -> (Arc<Cache>, Worker) {
    let cache = Arc::new(Cache::new(config).unwrap());
    let worker = cache.worker(0).unwrap();
    (cache, worker)
}

/// Proves that a scheduled flush is done by the process whose image it is then, once. It was forgotten.
#[test]
fn a_scheduled_flush_is_done_by_a_later_process() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        for way in WAYS {
            let mut image = Image::new("flush", semantics);
            image.set(b"old", NOW_S);
            image.worker.flush_all(DUE_S, NOW_S);
            let mut image = image.next(way);
            assert_eq!(image.get(DUE_S - 1).as_deref(), Some(b"old".as_slice()), "{semantics:?} {way:?}");
            let mut image = image.next(way);
            assert_eq!(image.get(DUE_S), None, "{semantics:?} {way:?}");
            image.set(b"new", DUE_S);
            assert!(image.next(way).get(DUE_S + 1).is_some(), "flushed again: {semantics:?} {way:?}");
        }
    }
}
