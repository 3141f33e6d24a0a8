//! Finds the queue of an interrupt from the name that its driver gives it.

use super::facts::Direction;

/// Endings of names, before the number of the queue, with the direction of the packets.
/// The first that fits counts.
const ENDINGS: [(&str, Direction); 10] = [
    ("txrx", Direction::Both),     // eth0-TxRx-3, i40e-eth0-TxRx-3, ice-eth0-TxRx-3
    ("tx-rx", Direction::Both),    // ens5-Tx-Rx-3
    ("rxtx", Direction::Both),     // eth0-rxtx-3
    ("comp", Direction::Both),     // mlx5_comp3@pci:0000:3b:00.0
    ("fp", Direction::Both),       // eth0-fp-3
    ("queue", Direction::Both),    // eth0-queue-3
    ("input", Direction::Receive), // virtio3-input.0
    ("output", Direction::Transmit),
    ("rx", Direction::Receive), // eth0-rx-3, eth0-Rx3
    ("tx", Direction::Transmit),
];

/// The queue, and which way; `None`: an interrupt of something else, or a name of unknown make.
pub fn queue_of(name: &str) -> Option<(usize, Direction)> {
    let name = name.split('@').next().unwrap_or(name);
    let label = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let queue = name[label.len()..].parse().ok()?;
    let label = label.trim_end_matches(['-', '.', '_', ':']).to_ascii_lowercase();
    let (_, direction) = ENDINGS.iter().find(|(ending, _)| label.ends_with(ending))?;
    Some((queue, *direction))
}

/// The interrupts of `/proc/interrupts`: number and name.
pub fn parse_table(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        Some((number.trim().parse().ok()?, rest.split_whitespace().last()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_many_drivers() {
        use Direction::{Both, Receive, Transmit};
        for (name, expected) in [
            ("eth0-TxRx-3", Some((3, Both))),
            ("i40e-ens1f0-TxRx-17", Some((17, Both))),
            ("ens5-Tx-Rx-2", Some((2, Both))),
            ("mlx5_comp12@pci:0000:3b:00.0", Some((12, Both))),
            ("eth0-rxtx-1", Some((1, Both))),
            ("eth1-fp-0", Some((0, Both))),
            ("virtio3-input.0", Some((0, Receive))),
            ("virtio3-output.10", Some((10, Transmit))),
            ("eth0-rx-4", Some((4, Receive))),
            ("eth0-Tx7", Some((7, Transmit))),
            ("virtio3-config", None),
            ("mlx5_async0@pci:0000:3b:00.0", None),
            ("i40e-0000:3b:00.0:misc", None),
            ("eth0", None),
            ("", None),
        ] {
            assert_eq!(queue_of(name), expected, "{name}");
        }
    }

    #[test]
    fn the_table_of_the_kernel() {
        let text = "           CPU0       CPU1\n  8:          0          0  IO-APIC   8-edge      rtc0\n \
            37:          0      14240  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
            NMI:          0          0   Non-maskable interrupts\n";
        let found: Vec<_> = parse_table(text).collect();
        assert_eq!(found, [(8, "rtc0"), (37, "virtio2-input.0")]);
    }
}
