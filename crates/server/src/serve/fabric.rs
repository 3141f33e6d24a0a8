//! Opens the cache area and the endpoints of a fabric, and says what clients can see.

use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_chunks::Area;
use micanite_engine::{Cache, ChunkConfig, ChunkWrite};
use micanite_fabric::IS_BUILT;
use micanite_memory::{HUGE_PAGE_BYTES, Region};

use super::{Failure, process};
use crate::configuration::{FabricCache, Settings};
use crate::limits::{FABRIC_LEASE_NS, FABRIC_OPEN_TIMEOUT_MS};
use crate::native::fabric::{FabricArea, FabricPort, FabricShared};
use crate::telemetry::log::start;
use crate::worker::spins;

/// Pause between two attempts to open an endpoint.
const RETRY: Duration = Duration::from_millis(50);

/// Checks that this build and this machine have the provider, before anything is opened.
pub(super) fn probe(settings: &Settings) -> Result<(), Failure> {
    let Some(fabric) = &settings.fabric else {
        return Ok(());
    };
    let provider = fabric.address.provider;
    let failed = |why: String| {
        let advice = match IS_BUILT {
            true => "`micanite ctl doctor` lists the providers that this machine has",
            false => "build with the feature libfabric, or leave --fabric out",
        };
        Failure::system(format!("--fabric {}: {why}\n  {advice}", fabric.address))
    };
    provider.probe().map_err(failed)
}

/// Makes what workers share, and attaches the cache area.
pub(super) fn share(settings: &Settings, cache: &Cache) -> Result<Option<FabricShared>, Failure> {
    let Some(fabric) = &settings.fabric else {
        return Ok(None);
    };
    let area = fabric.cache.as_ref().map(|of| attach(of, cache)).transpose()?;
    let random = [process::random_seed()?, process::random_seed()?, process::random_seed()?];
    Ok(Some(FabricShared::new(fabric, settings.threads, area, random)))
}

fn attach(of: &FabricCache, cache: &Cache) -> Result<FabricArea, Failure> {
    let bytes = of.geometry.bytes();
    let failed = |what: &dyn std::fmt::Display| {
        Failure::system(format!("cannot have a cache area of {bytes} bytes (--fabric-cache): {what}"))
    };
    let region = Region::private(bytes.next_multiple_of(HUGE_PAGE_BYTES)).map_err(|error| failed(&error))?;
    // No two processes have the same one.
    let incarnation = process::random_seed()?.max(1);
    let area = Area::new(Arc::new(region), of.geometry, incarnation);
    let area = area.ok_or_else(|| failed(&"the region is too small"))?;
    let write = if of.writes_back { ChunkWrite::Back } else { ChunkWrite::Through };
    let config = ChunkConfig { policy: of.policy, lease_ns: FABRIC_LEASE_NS, write };
    cache.attach_area(&area, config).map_err(|error| failed(&error))?;
    Ok(FabricArea { area, incarnation })
}

/// Opens the endpoint of each worker. Those of the program before may need a moment to go (`is_restart`).
pub(super) fn open(
    settings: &Settings,
    shared: Option<&FabricShared>,
    is_restart: bool,
) -> Result<Vec<FabricPort>, Failure> {
    let (Some(fabric), Some(shared)) = (&settings.fabric, shared) else {
        return Ok(Vec::new());
    };
    let deadline = Instant::now() + Duration::from_millis(FABRIC_OPEN_TIMEOUT_MS);
    let open = |worker| loop {
        match FabricPort::open(worker, fabric, shared, spins(settings.threads)) {
            Ok(port) => return Ok(port),
            Err(_) if is_restart && Instant::now() < deadline => std::thread::sleep(RETRY),
            Err(error) => {
                let address = fabric.address_of(worker);
                return Err(Failure::system(format!("cannot serve --fabric {address}: {error}")));
            }
        }
    };
    (0..settings.threads).map(open).collect()
}

/// Returns a line for the log of the start.
pub(super) fn text(settings: &Settings) -> Option<String> {
    let fabric = settings.fabric.as_ref()?;
    let area = match &fabric.cache {
        None => "no cache area".into(),
        Some(cache) => format!(
            "a cache area of {} in {} pages, {}, written {}",
            micanite_control::size::text(cache.geometry.bytes()),
            cache.geometry.pages(),
            match cache.policy {
                micanite_chunks::Policy::Lru => "lru",
                micanite_chunks::Policy::Fifo => "fifo",
            },
            if cache.writes_back { "back" } else { "through" },
        ),
    };
    let (first, last) = (fabric.address_of(0), fabric.address_of(settings.threads - 1));
    let places = match settings.threads {
        1 => first.to_string(),
        _ => format!("{first} to {last}"),
    };
    Some(format!("{places}: {area}; at most {} clients", fabric.clients_max))
}

/// Says what clients can see, and warns where nothing is asked of them.
pub(super) fn warn(settings: &Settings) {
    let Some(fabric) = &settings.fabric else {
        return;
    };
    let provider = fabric.address.provider;
    if fabric.cache.is_some() {
        start!(
            INFO,
            "every client of --fabric can read all items in the cache area, whoever stored them: keys, \
             values and flags (docs/fabric.md)"
        );
    }
    if !provider.checks_access {
        start!(
            WARN,
            "{} checks no access: every process that may open the server's memory can read and \
             write it (--fabric-trusted)",
            provider.name
        );
        return;
    }
    if super::warnings::is_reachable(&fabric.address.host) {
        let open = match settings.auth {
            None => "has no passwords (-Y FILE asks for them) and ",
            Some(_) => "",
        };
        start!(WARN, "--fabric {open}does not encrypt: let a firewall decide who reaches it");
    }
}
