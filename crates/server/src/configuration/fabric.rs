//! `--fabric`: clients over libfabric, which read the cache area by themselves.

use micanite_chunks::layout::{HEADER_BYTES, PAGE_BYTES_MAX};
use micanite_chunks::{Geometry, Policy};
use micanite_control::size;
use micanite_engine::{Layout, Semantics};
use micanite_fabric::{Addressing, FabricAddress};
use micanite_wire::native::{Header, KEY_BYTES_MAX, Opcode, request_bytes};

use super::{Options, Settings, UsageError, Value, auth};
use crate::limits::{
    FABRIC_CACHE_BYTES, FABRIC_MESSAGE_UNIT_BYTES, FABRIC_PAGE_BYTES_MIN, FABRIC_PAGES_OF_PARTITION,
};

/// The port of the first worker, unless `--fabric` says another one.
const PORT_DEFAULT: u16 = 11400;

/// Settings of `--fabric`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricSettings {
    /// Address of the first worker.
    pub address: FabricAddress,
    /// The cache area, if there is one.
    pub cache: Option<FabricCache>,
    /// Time for which a buffer stays registered after its last message.
    pub frozen_s: u32,
    /// Interval of pushes; 0: there are none.
    pub push_ms: u32,
    /// Clients at the same time.
    pub clients_max: usize,
    /// The longest message.
    pub message_bytes: usize,
}

/// Settings of the cache area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricCache {
    pub geometry: Geometry,
    /// As given, or the default.
    bytes: usize,
    pub policy: Policy,
    /// A set of a cached item changes the copy alone.
    pub writes_back: bool,
}

impl FabricSettings {
    /// Returns the address of a worker.
    pub fn address_of(&self, worker: usize) -> FabricAddress {
        let FabricAddress { provider, host, port } = self.address.clone();
        let host = match provider.addressing {
            Addressing::Name if worker > 0 => format!("{host}-{worker}"),
            Addressing::Name | Addressing::Internet => host,
        };
        FabricAddress { provider, host, port: port.map(|port| port + worker as u16) }
    }

    /// Returns the bytes of the cache area; 0 if there is none.
    pub fn area_bytes(&self) -> usize {
        self.cache.as_ref().map_or(0, |cache| cache.geometry.bytes())
    }

    /// Says what follows from other options.
    pub(super) fn say(&self, options: &mut Options) {
        options.fabric.set(&self.address);
        options.fabric_message.set(size::exact(self.message_bytes));
        match &self.cache {
            None => options.fabric_cache.set(0),
            Some(cache) => {
                options.fabric_cache.set(size::exact(cache.bytes));
                options.fabric_write.set(if cache.writes_back { "back" } else { "through" });
            }
        }
    }
}

/// Checks them. The other settings are complete.
pub(super) fn fabric(options: &Options, settings: &Settings) -> Result<Option<FabricSettings>, UsageError> {
    let Some(text) = options.fabric.text().filter(|text| *text != "none") else {
        let others = options.values().into_iter().filter(|value| value.declared.name.starts_with("fabric-"));
        let is_left = !options.fabric.is_said();
        return match others.into_iter().find(|value| is_left && value.is_said()) {
            Some(value) => Err(value.wrong("there is no --fabric PROVIDER,ADDRESS that it is for")),
            None => Ok(None),
        };
    };
    let address = address(text, settings.threads).map_err(|what| options.fabric.wrong(what))?;
    if !address.provider.checks_access && !options.fabric_trusted.is_on()? {
        let name = address.provider.name;
        return Err(options.fabric.wrong(format!(
            "{name} checks no access: every process that may open the server's memory can read and write \
             all of it; --fabric-trusted says that you trust them"
        )));
    }
    auth::check_fabric(options, settings)?;
    Ok(Some(FabricSettings {
        address,
        cache: cache(options, settings)?,
        frozen_s: options.fabric_frozen.number()? as u32,
        push_ms: options.fabric_push.number()? as u32,
        clients_max: options.fabric_clients.number()?,
        message_bytes: message_bytes(&options.fabric_message, settings.item_bytes_max)?,
    }))
}

fn address(text: &str, threads: usize) -> Result<FabricAddress, String> {
    let mut address: FabricAddress = text.parse()?;
    if address.provider.addressing == Addressing::Name {
        return Ok(address);
    }
    let port = address.port.unwrap_or(PORT_DEFAULT);
    let last = usize::from(port) + threads - 1;
    if port == 0 {
        return Err("port 0 is none; clients need a port that they know".into());
    }
    if last > usize::from(u16::MAX) {
        return Err(format!("{port} is too high: with {threads} workers (-t) the last port would be {last}"));
    }
    address.port = Some(port);
    Ok(address)
}

/// Returns the longest message, a multiple of a page.
fn message_bytes(option: &Value, value_bytes_max: usize) -> Result<usize, UsageError> {
    // An append has the longest request.
    let needed = Header::BYTES + request_bytes(Opcode::Append, KEY_BYTES_MAX, value_bytes_max);
    let needed = needed.next_multiple_of(FABRIC_MESSAGE_UNIT_BYTES);
    if !option.is_said() {
        return Ok(needed);
    }
    match option.number()?.next_multiple_of(FABRIC_MESSAGE_UNIT_BYTES) {
        bytes if bytes < needed => {
            Err(option.wrong(format!("a set of the largest value (-I) needs {}", size::exact(needed))))
        }
        bytes => Ok(bytes),
    }
}

fn cache(options: &Options, settings: &Settings) -> Result<Option<FabricCache>, UsageError> {
    let policy = match options.fabric_policy.choice()? {
        "fifo" => Policy::Fifo,
        _ => Policy::Lru,
    };
    let writes_back = match options.fabric_write.is_said() {
        true => options.fabric_write.choice()? == "back",
        false => {
            let is_kept = settings.image.is_some() || settings.kernel_get.is_some();
            settings.semantics == Semantics::Cache && !is_kept
        }
    };
    let option = &options.fabric_cache;
    // Creating the engine's memory reports wrong sizes.
    let partitions = Layout::of(&settings.engine(0)).map_or(1, |layout| layout.partitions);
    let page_bytes = page_bytes(settings.item_bytes_max);
    let of = |bytes| Geometry::new(partitions.ilog2(), page_bytes, bytes);
    let least_bytes = |pages_of_partition| {
        // The last unit has constants and records.
        let pages_bytes = partitions.saturating_mul(page_bytes).saturating_mul(pages_of_partition);
        pages_bytes.saturating_add(FABRIC_PAGE_BYTES_MIN)
    };
    let bytes = match option.is_said() {
        true => option.number()?,
        false => FABRIC_CACHE_BYTES.max(least_bytes(FABRIC_PAGES_OF_PARTITION)),
    };
    if bytes == 0 {
        return match [&options.fabric_policy, &options.fabric_write].into_iter().find(|of| of.is_said()) {
            Some(said) => Err(said.wrong("there is no cache area that it is for (--fabric-cache 0)")),
            None => Ok(None),
        };
    }
    let Some(geometry) = of(bytes) else {
        return Err(option.wrong(format!(
            "{} is too small for {partitions} partitions with a page of {} each: {} or more, less memory \
             (-m), or smaller items (-I)",
            size::text(bytes),
            size::text(page_bytes),
            size::exact(least_bytes(1)),
        )));
    };
    Ok(Some(FabricCache { geometry, bytes, policy, writes_back }))
}

/// Returns the bytes of a page that holds the largest item, if a page can.
fn page_bytes(value_bytes_max: usize) -> usize {
    let item_bytes = HEADER_BYTES + KEY_BYTES_MAX + value_bytes_max;
    item_bytes.next_power_of_two().clamp(FABRIC_PAGE_BYTES_MIN, PAGE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    const NET: &str = "--fabric net;ofi_rxm,127.0.0.1";

    fn fabric(arguments: &str) -> FabricSettings {
        settings(&format!("{NET} {arguments}")).unwrap().fabric.unwrap()
    }

    #[test]
    fn wrong_options_name_the_option_and_the_remedy() {
        for (arguments, part) in [
            ("--fabric sockets,127.0.0.1", "these are known: net;ofi_rxm"),
            ("--fabric net;ofi_rxm,localhost", "not IP[:PORT]"),
            ("--fabric net;ofi_rxm,127.0.0.1:0", "clients need a port"),
            ("--fabric net;ofi_rxm,127.0.0.1:65535 -t 2", "would be 65536"),
            ("--fabric shm,x", "--fabric-trusted"),
            ("--fabric-cache 1m", "--fabric-cache: there is no --fabric"),
            ("--fabric-trusted", "--fabric-trusted: there is no --fabric"),
            ("--fabric net;ofi_rxm,::1 --fabric-cache 3m", "2 partitions with a page of 2 MiB"),
            ("--fabric net;ofi_rxm,::1 --fabric-cache 0 --fabric-write back", "no cache area"),
            ("--fabric net;ofi_rxm,::1 --fabric-write never", "none of back, through"),
            ("--fabric net;ofi_rxm,::1 --fabric-policy best", "none of lru, fifo"),
            ("--fabric net;ofi_rxm,::1 --fabric-message 64k", "the largest value (-I) needs 1028k"),
            ("--fabric net;ofi_rxm,::1 --fabric-frozen 0", "1 to 86400"),
            ("--fabric net;ofi_rxm,::1 --fabric-clients 0", "1 to 4096"),
            ("--fabric net;ofi_rxm,::1 --tls-cert c --tls-client-ca a", "--allow-unauthenticated fabric"),
        ] {
            let error = settings(arguments).expect_err(arguments);
            assert!(error.contains(part), "{arguments}: {error}");
        }
        for arguments in ["", "--fabric none --fabric-cache 1m"] {
            assert_eq!(settings(arguments).unwrap().fabric, None);
        }
    }

    #[test]
    fn each_worker_has_an_address() {
        let net = fabric("-t 2");
        assert_eq!(net.address_of(0).to_string(), "net;ofi_rxm,127.0.0.1:11400");
        assert_eq!(net.address_of(1).to_string(), "net;ofi_rxm,127.0.0.1:11401");
        let shm = settings("--fabric shm,mine --fabric-trusted").unwrap().fabric.unwrap();
        assert_eq!([0, 2].map(|worker| shm.address_of(worker).to_string()), ["shm,mine", "shm,mine-2"]);
    }

    #[test]
    fn what_must_be_kept_is_written_through() {
        for (arguments, back) in [
            ("", true),
            ("-M", false),
            ("--image /x", false),
            ("-M --fabric-write back", true),
            ("--image /x --fabric-write back", true),
            ("--fabric-write through", false),
        ] {
            assert_eq!(fabric(arguments).cache.unwrap().writes_back, back, "{arguments}");
        }
    }

    #[test]
    fn pages_hold_the_largest_item_and_each_partition_has_some() {
        for (arguments, page_bytes) in [("", 2 << 20), ("-I 1000k", 1 << 20), ("-m 1g -t 1 -I 3m", 4 << 20)] {
            let geometry = fabric(arguments).cache.unwrap().geometry;
            assert_eq!(geometry.page_bytes(), page_bytes, "{arguments}");
            assert!(geometry.bytes() <= 64 << 20);
        }
        let many = fabric("-m 4g -t 64").cache.unwrap().geometry;
        assert_eq!(many.partitions(), 128);
        assert!(many.bytes() > 64 << 20);
        assert!(fabric("--fabric-cache 0").cache.is_none());
    }

    #[test]
    fn a_message_holds_a_set_of_the_largest_value() {
        assert_eq!(fabric("").message_bytes, (1 << 20) + 4096);
        assert_eq!(fabric("--fabric-message 2000000").message_bytes, 2_002_944);
        let most = fabric("-m 8g -t 1 -I 1g");
        assert!(most.message_bytes <= crate::limits::FABRIC_MESSAGE_BYTES_MAX);
    }

    #[test]
    fn what_is_printed_leads_to_the_same_settings() {
        for arguments in ["", "-M --fabric-cache 80m --fabric-push 0", "--fabric-cache 0", "-t 64 -m 4g"] {
            let first = settings(&format!("{NET} {arguments}")).unwrap();
            let text = first.options().to_string();
            let again = Settings::of(&toml::from_str(&text).unwrap(), 3).unwrap();
            assert_eq!(again.fabric, first.fabric, "{text}");
            assert_eq!(again.options(), first.options(), "{text}");
        }
    }
}
