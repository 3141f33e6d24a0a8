//! Names of endpoints over `shm`.

use std::path::PathBuf;

use micanite_fabric::{Endpoint, FabricAddress};

use crate::client::OPTIONS;

/// Proves that a client opens an endpoint although a killed process that had its number has left the next
/// names. It was "busy" now and then.
#[test]
fn names_of_a_killed_process_are_passed_over() {
    let address: FabricAddress = "shm,micanite-no-such-server".parse().unwrap();
    let first = Endpoint::connect(&address, &OPTIONS).unwrap();
    let begin = format!("{}:", std::process::id());
    let names = || std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().path());
    let is_own = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&begin);
    let own = names().find(is_own).unwrap();
    let (before, number) = own.to_str().unwrap().rsplit_once(':').unwrap();
    let next = |step: u32| PathBuf::from(format!("{before}:{}", number.parse::<u32>().unwrap() + step));
    let left: Vec<_> = (1..4).map(next).filter(|path| !path.exists()).collect();
    for path in &left {
        std::fs::copy(&own, path).unwrap();
    }
    let second = Endpoint::connect(&address, &OPTIONS);
    for path in &left {
        // libfabric has removed it by now.
        let _ = std::fs::remove_file(path);
    }
    assert!(second.is_ok(), "{left:?} {:?}", second.err());
    drop(first);
}
