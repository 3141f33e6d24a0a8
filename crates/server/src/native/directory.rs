//! The directory: what clients go by.

use std::fmt::Write;

use micanite_engine::{Access, Cache, Route};
use micanite_wire::native::{
    CoreEntry, Directory, DirectoryWriter, Entry, Header, PartitionAccess, PartitionEntry,
};

use super::NativeShared;
use crate::limits::{COOKIE_EPOCH_S, IDS_WINDOW};

/// Returns the part of the directory that concerns the whole server.
pub(super) fn directory(cache: &Cache, native: &NativeShared) -> Directory {
    Directory {
        hash_seed: cache.seed(),
        partitions: cache.layout().partitions as u32,
        cores: native.cores.len() as u16,
        stream_port: native.stream_port(),
        payload_bytes_max: native.payload_bytes as u32,
        value_bytes_max: cache.value_bytes_max() as u32,
        ids_window: IDS_WINDOW as u16,
        cookie_s: COOKIE_EPOCH_S as u16,
        addresses: native.named_addresses(),
    }
}

/// Returns whether a page may begin at this number. It may lie beyond all entries.
pub(super) fn begins_page(cache: &Cache, native: &NativeShared, first: u32) -> bool {
    let directory = directory(cache, native);
    directory.begins_entry(first.min(directory.all_entries()))
}

/// Writes a worker's reply that begins with the entry `first`, into a datagram of this length or
/// less; returns its length, none if nothing fits.
pub(super) fn write(
    cache: &Cache,
    native: &NativeShared,
    (worker, header): (usize, &Header),
    first: u32,
    datagram: &mut [u8],
) -> Option<usize> {
    let directory = directory(cache, native);
    let first = first.min(directory.all_entries());
    debug_assert!(directory.begins_entry(first));
    let mut writer = DirectoryWriter::new(datagram, &directory, first)?;
    while writer.next() < directory.page_end(first)
        && let Some(entry) = entry(cache, native, worker, writer.next())
    {
        if !writer.push(entry) {
            break;
        }
    }
    Some(writer.finish(header))
}

fn entry(cache: &Cache, native: &NativeShared, worker: usize, number: u32) -> Option<Entry> {
    let number = number as usize;
    if let Some(core) = native.core_for(worker, number) {
        return Some(Entry::Core(core));
    }
    let partition = number - native.cores.len();
    let Some(Route { access, owner }) = cache.route(partition) else {
        return native.interface_entry(partition - cache.layout().partitions);
    };
    let access = match access {
        Access::Erew => PartitionAccess::Erew,
        Access::Crew => PartitionAccess::Crew,
        Access::Crcw => PartitionAccess::Crcw,
    };
    let owner = owner as u16;
    Some(Entry::Partition(PartitionEntry { owner, access }))
}

/// The directory as text, for people.
pub fn text(cache: &Cache, native: &NativeShared) -> String {
    let directory = directory(cache, native);
    let mut text = String::new();
    // Writing to a String cannot fail.
    for (name, number) in [
        ("generation", u64::from(native.generation(cache))),
        ("hash_seed", directory.hash_seed),
        ("partitions", u64::from(directory.partitions)),
        ("cores", u64::from(directory.cores)),
        ("stream_port", u64::from(directory.stream_port)),
        ("payload_bytes_max", u64::from(directory.payload_bytes_max)),
        ("value_bytes_max", u64::from(directory.value_bytes_max)),
        ("ids_window", u64::from(directory.ids_window)),
        ("cookie_s", u64::from(directory.cookie_s)),
    ] {
        let _ = writeln!(text, "{name} {number}");
    }
    let _ = writeln!(text, "\n{:>9}  {:>8}  {:>4}{}", "core", "UDP port", "node", interface_heading(native));
    for (number, CoreEntry { port, node }) in native.cores.iter().enumerate() {
        let _ = writeln!(text, "{number:>9}  {port:>8}  {node:>4}{}", interface_text(native, number));
    }
    let _ = writeln!(text, "\n{:>9}  {:<4}  {:>5}", "partition", "mode", "owner");
    for partition in 0..directory.partitions as usize {
        if let Some(Route { access, owner }) = cache.route(partition) {
            let access = access.name();
            let _ = writeln!(text, "{partition:>9}  {access:<4}  {owner:>5}");
        }
    }
    text
}

fn interface_heading(native: &NativeShared) -> &'static str {
    if native.named_addresses() == 0 { "" } else { "  interface" }
}

/// Returns the interface of a core with its addresses; nothing if there are not several.
fn interface_text(native: &NativeShared, core: usize) -> String {
    match native.interface_of(core) {
        Some((_, its)) if native.named_addresses() > 0 => {
            let ips: Vec<_> = its.addresses.iter().map(ToString::to_string).collect();
            format!("  {} ({})", its.name, ips.join(", "))
        }
        _ => String::new(),
    }
}
