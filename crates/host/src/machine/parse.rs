//! Reads what `ethtool` prints.

use std::collections::BTreeSet;

use super::facts::{Channels, Family, Feature, PortRule};

/// `ethtool -i`: the driver's name.
pub fn driver(text: &str) -> Option<String> {
    field(text.lines(), "driver").map(str::to_owned)
}

/// `ethtool -l`: how many queues there are and may be; `None`: not said in a known way.
pub fn channels(text: &str) -> Option<Channels> {
    let (most, current) = text.split_once("Current hardware settings")?;
    let number = |part: &str, name| field(part.lines(), name).and_then(|word| word.parse().ok());
    let count = |part: &str, name| number(part, name).unwrap_or(0usize);
    let combined = count(most, "Combined");
    let found = if combined > 0 {
        Channels {
            combined: true,
            queues_max: combined,
            receive: count(current, "Combined"),
            transmit: count(current, "Combined"),
        }
    } else {
        Channels {
            combined: false,
            queues_max: count(most, "RX").min(count(most, "TX")),
            receive: count(current, "RX"),
            transmit: count(current, "TX"),
        }
    };
    (found.queues_max > 0).then_some(found)
}

/// `ethtool -k`: one feature.
pub fn feature(text: &str, name: &str) -> Option<Feature> {
    let words = field(text.lines(), name)?;
    Some(Feature { on: words.starts_with("on"), fixed: words.contains("[fixed]") })
}

/// `ethtool -n`: the rules that look at nothing but the port of UDP datagrams.
pub fn port_rules(text: &str) -> Vec<PortRule> {
    let mut blocks = text.split("Filter:").skip(1);
    let mut rules = Vec::new();
    for block in &mut blocks {
        rules.extend(port_rule(block));
    }
    rules
}

/// One rule, without the word at its start.
pub fn port_rule(block: &str) -> Option<PortRule> {
    let mut lines = block.trim_start().lines();
    let id = lines.next()?.trim().parse().ok()?;
    let (mut family, mut port, mut queue) = (None, None, None);
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        match (name, value.trim()) {
            ("Rule Type", "UDP over IPv4") => family = Some(Family::Udp4),
            ("Rule Type", "UDP over IPv6") => family = Some(Family::Udp6),
            ("Dest port", value) if value.ends_with("mask: 0x0") => {
                port = value.split(' ').next()?.parse().ok();
            }
            ("Action", value) => queue = value.strip_prefix("Direct to queue ")?.parse().ok(),
            // Everything else has to be open: its mask covers all of it.
            (_, value) if is_open(value) => {}
            _ => return None,
        }
    }
    Some(PortRule { id, family: family?, port: port?, queue: queue? })
}

/// Returns true if a field of a rule may have any value: all bits of its mask are set.
fn is_open(value: &str) -> bool {
    let Some((_, mask)) = value.split_once("mask:") else {
        return false;
    };
    let mask = mask.trim();
    let digits = mask.strip_prefix("0x").unwrap_or(mask);
    !digits.is_empty()
        && (digits.split('.').all(|part| part == "255")
            || digits.chars().all(|c| matches!(c, 'f' | 'F' | ':')))
}

/// `ethtool -N`: the number that a new rule has been given.
pub fn added_rule(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("Added rule with ID ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `ethtool -x`: the queues in the table of receive side scaling; `None`: there is no table.
pub fn rss_queues(text: &str) -> Option<BTreeSet<usize>> {
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("RX flow hash indirection table"))
        .skip(1)
        .map_while(|line| {
            let (at, queues) = line.split_once(':')?;
            at.trim().parse::<usize>().ok()?;
            Some(queues)
        });
    let queues: BTreeSet<_> =
        rows.flat_map(str::split_whitespace).filter_map(|word| word.parse().ok()).collect();
    (!queues.is_empty()).then_some(queues)
}

/// `ethtool -c`: microseconds before a received packet interrupts, and whether that adapts.
pub fn interrupt_delay(text: &str) -> (Option<u32>, bool) {
    let delay_us = field(text.lines(), "rx-usecs").and_then(|word| word.parse().ok());
    let adaptive = field(text.lines(), "Adaptive RX").is_some_and(|word| word.starts_with("on"));
    (delay_us, adaptive)
}

/// The text behind a name and a colon.
fn field<'a>(mut lines: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    lines.find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: &str = "Channel parameters for eth0:\nPre-set maximums:\n\
        RX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t63\n\
        Current hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t8\n";

    /// A listing as `ethtool -n` prints it; the rules 0 to 4 look at more than a port or do more
    /// than deliver to a queue.
    const RULES: &str = "8 RX rings available\nTotal 7 rules\n\n\
        Filter: 0\n\tRule Type: UDP over IPv4\n\tSrc IP addr: 0.0.0.0 mask: 255.255.255.255\n\
        \tDest IP addr: 192.0.2.2 mask: 0.0.0.0\n\tTOS: 0x0 mask: 0xff\n\tSrc port: 0 mask: 0xffff\n\
        \tDest port: 9000 mask: 0x0\n\tAction: Direct to queue 1\n\n\
        Filter: 1\n\tFlow Type: Raw Ethernet\n\tSrc MAC addr: 00:00:00:00:00:00 mask: FF:FF:FF:FF:FF:FF\n\
        \tEthertype: 0x0 mask: 0xFFFF\n\tAction: Direct to queue 0\n\n\
        Filter: 2\n\tRule Type: TCP over IPv4\n\tDest port: 9000 mask: 0x0\n\tAction: Direct to queue 1\n\n\
        Filter: 3\n\tRule Type: UDP over IPv4\n\tDest port: 9000 mask: 0x0\n\tAction: Drop\n\n\
        Filter: 4\n\tRule Type: UDP over IPv4\n\tDest port: 9000 mask: 0x0\n\tRSS Context ID: 1\n\
        \tAction: Direct to queue 0\n\n\
        Filter: 1022\n\tRule Type: UDP over IPv6\n\
        \tSrc IP addr: :: mask: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\n\
        \tDest IP addr: :: mask: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\n\tTraffic Class: 0x0 mask: 0xff\n\
        \tSrc port: 0 mask: 0xffff\n\tDest port: 9001 mask: 0x0\n\tAction: Direct to queue 3\n\n\
        Filter: 1023\n\tRule Type: UDP over IPv4\n\tSrc IP addr: 0.0.0.0 mask: 255.255.255.255\n\
        \tDest IP addr: 0.0.0.0 mask: 255.255.255.255\n\tTOS: 0x0 mask: 0xff\n\tSrc port: 0 mask: 0xffff\n\
        \tDest port: 9000 mask: 0x0\n\tVLAN EtherType: 0x0 mask: 0xffff\n\tVLAN: 0x0 mask: 0xffff\n\
        \tUser-defined: 0x0 mask: 0xffffffffffffffff\n\tAction: Direct to queue 2\n\n";

    #[test]
    fn channels_combined_and_apart() {
        let expected = Channels { combined: true, queues_max: 63, receive: 8, transmit: 8 };
        assert_eq!(channels(CHANNELS), Some(expected));
        let apart = "Pre-set maximums:\nRX:\t4\nTX:\t6\nCombined:\tn/a\n\
            Current hardware settings:\nRX: 2\nTX: 3\nCombined: n/a\n";
        let expected = Channels { combined: false, queues_max: 4, receive: 2, transmit: 3 };
        assert_eq!(channels(apart), Some(expected));
        assert_eq!(channels(&CHANNELS.replace("63", "n/a")), None);
        assert_eq!(channels(""), None);
    }

    #[test]
    fn features() {
        let text = "Features for eth0:\nntuple-filters: off [fixed]\n\
            \ttx-checksum-ipv4: on\ngeneric-receive-offload: on\n";
        let feature = |name| feature(text, name).map(|found| (found.on, found.fixed));
        assert_eq!(feature("ntuple-filters"), Some((false, true)));
        assert_eq!(feature("generic-receive-offload"), Some((true, false)));
        assert_eq!(feature("large-receive-offload"), None);
    }

    #[test]
    fn rules_for_a_port_alone_are_told_from_others() {
        let rule = |id, family, port, queue| PortRule { id, family, port, queue };
        assert_eq!(port_rules(RULES), [rule(1022, Family::Udp6, 9001, 3), rule(1023, Family::Udp4, 9000, 2)]);
        assert_eq!(port_rules("8 RX rings available\nTotal 0 rules\n"), []);
    }

    #[test]
    fn the_number_of_a_new_rule() {
        assert_eq!(added_rule("Added rule with ID 1023\n"), Some(1023));
        assert_eq!(added_rule(""), None);
    }

    #[test]
    fn the_table_of_receive_side_scaling() {
        let text = "RX flow hash indirection table for eth0 with 8 RX ring(s):\n    \
            0:      0     1     2     3     0     1     2     3\n    \
            8:      0     1     2     5\nRSS hash key:\n6d:5a:56:da\nRSS hash function:\n    toeplitz: on\n";
        assert_eq!(rss_queues(text), Some([0, 1, 2, 3, 5].into()));
        let none = "RX flow hash indirection table for eth0 with 1 RX ring(s):\nOperation not supported\n";
        assert_eq!(rss_queues(none), None);
    }

    #[test]
    fn the_delay_of_interrupts() {
        let text =
            "Coalesce parameters for eth0:\nAdaptive RX: on  TX: off\nrx-usecs: 50\nrx-usecs-irq: n/a\n";
        assert_eq!(interrupt_delay(text), (Some(50), true));
        assert_eq!(interrupt_delay(&text.replace("50", "n/a")), (None, true));
        assert_eq!(interrupt_delay(""), (None, false));
    }
}
