//! Abilities of drivers, as the kernel's sources, the driver table of docs.ebpf.io and DPDK's guides say: for
//! kernels that do not tell (before 6.3), and for what none tells: limits, and ways out.

/// A version of the kernel.
pub type Version = (u32, u32);

/// The way in which a device comes to DPDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dpdk {
    /// `vfio-pci` takes it from the kernel.
    Vfio,
    /// The device stays with the kernel, and DPDK shares it.
    Shared,
    /// Another way, in the note.
    Own(&'static str),
    /// Not at all.
    None,
}

/// Queues that are left with an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// All.
    All,
    /// Half of the most that there may be.
    Half,
}

/// A driver.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// Name, as `ethtool -i` prints it.
    pub name: &'static str,
    /// Whose, and where it is met.
    pub title: &'static str,
    /// The kernel since when it runs XDP programs with redirection.
    pub native: Option<Version>,
    /// The kernel since when AF_XDP gets by without a copy.
    pub zero_copy: Option<Version>,
    /// The largest MTU with an XDP program; 0: not known.
    pub mtu_max: u32,
    /// Queues that are left with an XDP program.
    pub queues: Queues,
    /// The way to DPDK.
    pub dpdk: Dpdk,
    /// Note for the person.
    pub note: Option<&'static str>,
}

/// One without peculiarities.
const fn driver(
    name: &'static str,
    title: &'static str,
    native: Version,
    zero_copy: Option<Version>,
    mtu_max: u32,
) -> Driver {
    Driver {
        name,
        title,
        native: Some(native),
        zero_copy,
        mtu_max,
        queues: Queues::All,
        dpdk: Dpdk::Vfio,
        note: None,
    }
}

/// Known drivers, the clouds' first.
static DRIVERS: [Driver; 25] = [
    Driver {
        queues: Queues::Half,
        note: Some("zero copy only with Amazon's own driver (amzn-drivers), not with the kernel's"),
        ..driver("ena", "Amazon ENA", (5, 11), None, 3498)
    },
    Driver {
        queues: Queues::Half,
        note: Some("what is zero copy elsewhere still copies once here (GQI-QPL)"),
        ..driver("gve", "Google gVNIC", (6, 4), Some((6, 4)), 2032)
    },
    Driver {
        dpdk: Dpdk::Own(
            "MANA stays bound to the kernel, but its interface has to be released: net_mana, rdma-core 44, \
             Linux 6.2",
        ),
        ..driver("mana", "Microsoft MANA", (6, 0), None, 3506)
    },
    Driver {
        dpdk: Dpdk::Own("net_netvsc, through uio_hv_generic: another binding than that of PCI devices"),
        note: Some(
            "with accelerated networking, packets come through the device below (mana, mlx5): name that one",
        ),
        ..driver("hv_netvsc", "Microsoft Hyper-V", (5, 19), None, 3506)
    },
    driver("virtio_net", "virtio", (4, 10), Some((6, 11)), 3506),
    Driver {
        dpdk: Dpdk::Shared,
        note: Some("before Linux 6.1, sockets without a copy have numbers of queues of their own"),
        ..driver("mlx5_core", "NVIDIA ConnectX-4 and later", (4, 9), Some((5, 3)), 3498)
    },
    driver("ice", "Intel E810", (5, 5), Some((5, 5)), 3046),
    driver("i40e", "Intel X710", (4, 13), Some((4, 20)), 3046),
    driver("ixgbe", "Intel 82599, X540, X550", (4, 12), Some((4, 20)), 3050),
    Driver {
        native: None,
        note: Some("its XDP programs cannot redirect packets; for this device DPDK is the way"),
        ..driver("ixgbevf", "Intel 82599, X540, X550, as a virtual function", (0, 0), None, 0)
    },
    Driver {
        native: None,
        note: Some("its XDP programs run behind the driver; for this device DPDK is the way"),
        ..driver("iavf", "Intel E810, X710, as a virtual function", (0, 0), None, 0)
    },
    driver("idpf", "Intel IPU", (6, 18), Some((6, 18)), 3046),
    driver("igb", "Intel I350, I210", (5, 10), Some((6, 14)), 3046),
    driver("igc", "Intel I225, I226", (5, 13), Some((5, 14)), 1500),
    Driver { native: None, ..driver("e1000e", "Intel, of laptops", (0, 0), None, 0) },
    Driver { native: None, ..driver("e1000", "Intel, emulated", (0, 0), None, 0) },
    Driver { native: None, dpdk: Dpdk::None, ..driver("r8169", "Realtek", (0, 0), None, 0) },
    driver("bnxt_en", "Broadcom NetXtreme", (5, 3), None, 3502),
    driver("qede", "Marvell FastLinQ", (5, 9), None, 0),
    driver("sfc", "AMD Solarflare", (5, 5), None, 3508),
    driver("ionic", "AMD Pensando", (6, 9), None, 3502),
    driver("vmxnet3", "VMware", (6, 6), None, 3494),
    Driver { dpdk: Dpdk::None, ..driver("xen_netfront", "Xen", (5, 9), None, 3840) },
    Driver { dpdk: Dpdk::None, ..driver("veth", "a pair of interfaces in software", (4, 19), None, 3520) },
    Driver { dpdk: Dpdk::None, ..driver("tun", "tun or tap, in software", (4, 14), None, 1500) },
];

/// Finds a driver by its name.
pub fn find(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| driver.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_is_there_once_and_zero_copy_is_not_older_than_the_rest() {
        for driver in &DRIVERS {
            let found = find(driver.name).unwrap();
            assert!(std::ptr::eq(driver, found), "{}", driver.name);
            assert!(driver.zero_copy.is_none() || driver.zero_copy >= driver.native);
        }
        assert!(find("nobody").is_none());
    }
}
