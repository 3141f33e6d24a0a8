//! Network devices that no interface of the kernel's belongs to: a driver for user space has them, or none.

use crate::doctor::facts::Device;
use crate::machine::Machine;

/// The class of network controllers, as sysfs writes it.
const CLASS_NETWORK: &str = "0x02";
const DEVICES: &str = "sys/bus/pci/devices";

/// Lists these devices by their addresses on the bus.
pub fn without_interface(machine: &Machine) -> Vec<Device> {
    let places = machine.names(DEVICES).into_iter();
    let mut devices = Vec::new();
    for address in places {
        let directory = format!("{DEVICES}/{address}");
        let class = machine.read(&format!("{directory}/class"));
        let is_network = class.is_some_and(|class| class.starts_with(CLASS_NETWORK));
        let below = machine.names(&directory);
        // Those of virtio are one step further down.
        let interfaces = below.iter().any(|name| name == "net" || name.starts_with("virtio"));
        if is_network && !interfaces {
            devices.push(Device { driver: driver(machine, &directory), address });
        }
    }
    devices
}

/// The name of the driver that has a device.
fn driver(machine: &Machine, directory: &str) -> Option<String> {
    let link = std::fs::read_link(machine.path(&format!("{directory}/driver"))).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}
