//! Facts from files, as a kernel shows them. `ethtool` knows nothing of these interfaces.

use std::fs;
use std::path::{Path, PathBuf};

use super::Machine;
use super::facts::{Direction, Interrupt, Kind};

/// A directory that ends with the test.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("micanite-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            fs::write(path, text).unwrap();
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_device_with_two_queues() {
    let root = Root::new("device");
    root.write(&[
        ("sys/class/net/no-such-nic/ifindex", "2\n"),
        ("sys/class/net/no-such-nic/type", "1\n"),
        ("sys/class/net/no-such-nic/device/numa_node", "1\n"),
        ("sys/class/net/no-such-nic/device/msi_irqs/40", "msix\n"),
        ("sys/class/net/no-such-nic/device/msi_irqs/41", "msix\n"),
        ("sys/class/net/no-such-nic/device/msi_irqs/42", "msix\n"),
        ("sys/class/net/no-such-nic/queues/rx-0/rps_cpus", "0\n"),
        ("sys/class/net/no-such-nic/queues/rx-1/rps_cpus", "f\n"),
        ("sys/class/net/no-such-nic/queues/tx-0/xps_cpus", "1\n"),
        ("sys/class/net/no-such-nic/queues/tx-1/xps_cpus", "2,00000000\n"),
        ("proc/irq/41/smp_affinity_list", "0-3\n"),
        ("proc/irq/42/smp_affinity_list", "5\n"),
        (
            "proc/interrupts",
            "    CPU0\n 39: 1 PCI-MSI 1-edge other-TxRx-0\n 40: 1 PCI-MSI 2-edge no-such-nic\n \
             41: 1 PCI-MSI 3-edge no-such-nic-TxRx-0\n 42: 1 PCI-MSI 4-edge no-such-nic-TxRx-1\n",
        ),
    ]);
    let facts = Machine::at(&root.0).interface("no-such-nic").unwrap();
    assert_eq!((facts.kind, facts.node, facts.queues), (Kind::Device, Some(1), 2));
    let interrupt = |number, queue, cpus| Interrupt { number, queue, direction: Direction::Both, cpus };
    assert_eq!(facts.interrupts, [interrupt(41, 0, vec![0, 1, 2, 3]), interrupt(42, 1, vec![5])]);
    assert_eq!(facts.interrupt_names.len(), 3);
    assert_eq!(facts.transmit_cpus, [(0, [0].into()), (1, [33].into())].into());
    assert_eq!(facts.passed_on, [1]);
    assert!(facts.channels.is_err() && facts.rules.is_err() && facts.rss.is_err());
}

#[test]
fn interfaces_without_a_device() {
    let root = Root::new("kinds");
    root.write(&[
        ("sys/class/net/no-such-lo/ifindex", "1\n"),
        ("sys/class/net/no-such-lo/type", "772\n"),
        ("sys/class/net/no-such-bond/ifindex", "2\n"),
        ("sys/class/net/no-such-bond/type", "1\n"),
        ("sys/class/net/no-such-bond/lower_eth0/ifindex", "3\n"),
        ("sys/class/net/no-such-tap/ifindex", "4\n"),
        ("sys/class/net/bonding_masters", "no-such-bond\n"),
    ]);
    let machine = Machine::at(&root.0);
    let kind = |name| machine.interface(name).map(|facts| facts.kind);
    assert_eq!(kind("no-such-lo"), Ok(Kind::Loopback));
    assert_eq!(kind("no-such-bond"), Ok(Kind::Above(vec!["eth0".into()])));
    assert_eq!(kind("no-such-tap"), Ok(Kind::Virtual));
    for missing in ["eth9", "bonding_masters"] {
        assert!(kind(missing).unwrap_err().contains(missing));
    }
}

#[test]
fn a_machine_of_two_nodes() {
    let root = Root::new("machine");
    root.write(&[
        ("sys/devices/system/cpu/online", "0-2,4\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node1/cpulist", "2-4\n"),
        ("proc/17/comm", "irqbalance\n"),
    ]);
    let facts = Machine::at(&root.0).facts().unwrap();
    assert_eq!(facts.online, [0, 1, 2, 4].into());
    assert_eq!([1, 2, 9].map(|cpu| facts.node_of(cpu)), [Some(0), Some(1), None]);
    assert!(facts.irqbalance);
    fs::remove_dir_all(root.0.join("proc")).unwrap();
    assert!(!Machine::at(&root.0).facts().unwrap().irqbalance);
}
