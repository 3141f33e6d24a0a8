//! A machine out of one file: a line `== path` begins a file of it, `== path -> target` is a link.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use micanite_fabric::{PROVIDERS, Provider};
use micanite_net::netlink::{Attached, XdpMode};

use crate::doctor::facts::{Built, Fabric, Facts, NoFabric, Trial, Tried};
use crate::doctor::gather;
use crate::doctor::gather::interfaces::{self, Netlink};
use crate::machine::Machine;

/// The machine as files below a directory, which ends with it.
pub struct Recorded {
    root: PathBuf,
}

impl Recorded {
    /// The one with a name.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = format!("micanite-doctor-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(directory);
        let path = format!("{}/testdata/doctor/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).unwrap();
        let (_, parts) = text.split_once("\n== ").unwrap();
        for part in parts.split("\n== ") {
            let (path, text) = part.split_once('\n').unwrap_or((part, ""));
            write(&root, path, text);
        }
        Self { root }
    }

    /// Gathers the facts of the machine.
    pub fn facts(&self) -> Facts {
        let machine = Machine::recorded(&self.root);
        let trial = |name: &str| -> Trial { machine.read(&format!("tried/{name}")).map_or(Ok(()), Err) };
        let tried = Tried {
            socket: trial("socket"),
            memory: trial("memory"),
            program: trial("program"),
            map: trial("map"),
            io_uring: trial("io_uring"),
        };
        let dpdk = machine.read("built/dpdk").unwrap();
        let built = Built {
            xdp: machine.read("built/xdp").map_or(Ok(()), Err),
            dpdk: match dpdk.strip_prefix("ok ") {
                Some(version) => Ok(version.into()),
                None => Err(dpdk),
            },
            fabric: fabric(machine.read("built/fabric")),
        };
        let facts = gather::of_machine(&machine, tried, built);
        let interfaces = interfaces::all(&machine, &[], &Answers(&machine)).unwrap();
        Facts { interfaces, ..facts }
    }
}

/// A build with a version has every provider, a machine of ours has no device for them.
fn fabric(version: Option<String>) -> Result<Fabric, NoFabric> {
    let probed = |provider: &'static Provider| match provider.needs_device {
        true => (provider, Err("there is no such device".to_owned())),
        false => (provider, Ok(())),
    };
    let providers = PROVIDERS.iter().map(probed).collect();
    version.map(|version| Fabric { version, providers }).ok_or(NoFabric::NotBuilt)
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let (path, target) = match path.split_once(" -> ") {
        Some((path, target)) => (root.join(path), Some(target)),
        None => (root.join(path), None),
    };
    fs::create_dir_all(path.parent().unwrap_or(root)).unwrap();
    match target {
        Some(target) => symlink(target, path).unwrap(),
        None => fs::write(path, text).unwrap(),
    }
}

/// Answers of netlink: `netlink/` and the number of the interface.
struct Answers<'a>(&'a Machine);

impl Answers<'_> {
    fn lines(&self, index: u32, word: &str) -> Vec<String> {
        let text = self.0.read(&format!("netlink/{index}")).unwrap_or_default();
        let lines = text.lines();
        let found = lines.filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        found.map(str::to_owned).collect()
    }
}

impl Netlink for Answers<'_> {
    fn features(&self, index: u32) -> Option<u64> {
        let line = self.lines(index, "features").pop()?;
        Some(u64::from_str_radix(line.strip_prefix("0x").unwrap(), 16).unwrap())
    }

    fn attached(&self, index: u32) -> Option<Attached> {
        let line = self.lines(index, "attached").pop()?;
        let (mode, program) = line.split_once(' ').unwrap();
        Some(Attached {
            mode: match mode {
                "native" => XdpMode::Native,
                _ => XdpMode::Generic,
            },
            program: program.parse().unwrap(),
        })
    }

    fn addresses(&self, index: u32) -> Vec<(IpAddr, u8)> {
        let lines = self.lines(index, "address").into_iter();
        let pair = |line: String| {
            let (address, bits) = line.split_once('/').unwrap();
            (address.parse().unwrap(), bits.parse().unwrap())
        };
        lines.map(pair).collect()
    }
}
