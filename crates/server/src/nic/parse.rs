//! What `ethtool` prints, as values.

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
    Some(Feature {
        on: words.starts_with("on"),
        fixed: words.contains("[fixed]"),
    })
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
    Some(PortRule {
        id,
        family: family?,
        port: port?,
        queue: queue?,
    })
}

/// Whether a field of a rule may have any value: all bits of its mask are set.
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
    let queues: BTreeSet<_> = rows
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.parse().ok())
        .collect();
    (!queues.is_empty()).then_some(queues)
}

/// `ethtool -c`: microseconds before a received packet interrupts, and whether that adapts.
pub fn interrupt_delay(text: &str) -> (Option<u32>, bool) {
    let delay_us = field(text.lines(), "rx-usecs").and_then(|word| word.parse().ok());
    let adaptive = field(text.lines(), "Adaptive RX").is_some_and(|word| word.starts_with("on"));
    (delay_us, adaptive)
}

/// What stands behind a name and a colon.
fn field<'a>(mut lines: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    lines.find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}
