//! Pinned memory of partitions.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use micanite_engine::{Cache, Condition, Config, Expiry, ImageState, Maps, Operation, Request, Worker};

use super::fixture::{Answer, can_load};
use crate::maps::ImageMaps;

const PARTITION_BYTES: usize = 1 << 20;

/// Mounts a BPF file system that only this thread sees, and that ends with it.
fn file_system() -> PathBuf {
    // SAFETY: it takes only numbers.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    mount(c"/", 0, libc::MS_REC | libc::MS_PRIVATE);
    mount(c"/sys/fs/bpf", c"bpf".as_ptr() as usize, 0);
    PathBuf::from("/sys/fs/bpf/cache")
}

fn mount(target: &CStr, kind: usize, flags: libc::c_ulong) {
    let (kind, none) = (kind as *const libc::c_char, std::ptr::null());
    // SAFETY: texts end with a zero; the kernel reads none where the flags need none.
    let result = unsafe { libc::mount(c"none".as_ptr(), target.as_ptr(), kind, flags, none) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn pinned_memory_of_the_same_size_is_reopened() {
    if !can_load() {
        return;
    }
    let directory = file_system();
    let open = |partitions, bytes| ImageMaps::pinned(&directory, partitions, bytes);
    let was_there = |result: Result<(ImageMaps, bool), String>| result.map(|(_, kept)| kept);
    assert_eq!(was_there(open(4, PARTITION_BYTES)), Ok(false));
    let (maps, kept) = open(4, PARTITION_BYTES).unwrap();
    assert!(kept);
    assert_eq!(maps.descriptors().len(), 4);
    for (partitions, bytes) in [(2, PARTITION_BYTES), (8, PARTITION_BYTES), (4, 2 * PARTITION_BYTES)] {
        let why = open(partitions, bytes).unwrap_err();
        assert!(why.contains("of other sizes") && why.contains("cache/partition-*"));
    }
    // An incomplete set is replaced.
    std::fs::remove_file(directory.join("partition-0000")).unwrap();
    assert_eq!(was_there(open(2, PARTITION_BYTES)), Ok(false));
    assert_eq!(was_there(open(2, PARTITION_BYTES)), Ok(true));
}

#[test]
fn existing_memory_is_pinned_in_unused_directories() {
    if !can_load() {
        return;
    }
    let directory = file_system();
    let maps = ImageMaps::create(2, PARTITION_BYTES).unwrap();
    // The remains of an incomplete set do no harm.
    let left = directory.join("partition-0003");
    let (other, _) = ImageMaps::pinned(&directory, 4, PARTITION_BYTES).unwrap();
    std::fs::remove_file(directory.join("partition-0000")).unwrap();
    assert!(left.exists());
    for _ in 0..2 {
        assert_eq!(maps.pin_as(&directory), Ok(()));
        assert!(!left.exists());
    }
    let (_, kept) = ImageMaps::pinned(&directory, 2, PARTITION_BYTES).unwrap();
    assert!(kept);
    let why = other.pin_as(&directory).unwrap_err();
    assert!(why.contains("another image"), "{why}");
    assert_eq!(maps.pin_as(&directory), Ok(()), "it is still pinned");
}

#[test]
fn memory_is_pinned_in_bpf_file_systems_only() {
    if !can_load() {
        return;
    }
    let directory = std::env::temp_dir().join(format!("mc-kernel-{}", std::process::id()));
    let why = ImageMaps::pinned(&directory, 1, PARTITION_BYTES).unwrap_err();
    assert!(why.contains("mount -t bpf"), "{why}");
    std::fs::remove_dir(directory).unwrap();
}

#[test]
fn images_in_arrays_outlive_their_cache() {
    if !can_load() {
        return;
    }
    let config = |descriptors: &[Arc<OwnedFd>], kept| Config {
        memory_bytes: 64 << 20,
        partition_bytes_max: 16 << 20,
        maps: Some(Maps { descriptors: descriptors.to_vec(), kept }),
        ..Config::default()
    };
    let maps = ImageMaps::create(4, 16 << 20).unwrap();
    let open = |kept| Arc::new(Cache::new(&config(maps.descriptors(), kept)).unwrap());
    let fill = |cache: &Arc<Cache>, keys: u32| {
        let mut worker = cache.worker(0).unwrap();
        (0..keys).for_each(|key| store(&mut worker, &format!("key-{key}"), b"value"));
    };
    fill(&open(false), 1000);
    for state in [ImageState::Recovered, ImageState::Clean, ImageState::Clean] {
        let cache = open(true);
        assert_eq!(*cache.image_state(), state);
        assert_eq!(cache.stats().items_live, 1000);
        fill(&cache, 1000);
        assert_eq!(cache.stats().items_live, 1000, "each was found");
        cache.close().unwrap();
    }
    assert_eq!(*open(false).image_state(), ImageState::Created);
    assert_eq!(open(true).stats().items_live, 0);
}

fn store(worker: &mut Worker, key: &str, value: &[u8]) {
    let operation = Operation::Store { condition: Condition::Always, value, flags: 0, expiry: Expiry::NEVER };
    let request = Request { hash: worker.cache().hash(key.as_bytes()), key: key.as_bytes(), operation };
    worker.execute(&[request], 1000, &mut Answer::default());
}
