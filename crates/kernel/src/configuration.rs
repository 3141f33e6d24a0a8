//! Configuration of the program. It is fixed before the program loads, so the verifier treats it as
//! constants. The order of the fields is that of `struct configuration` in `bpf/kernel.h`.

use std::net::IpAddr;

use micanite_engine::Geometry;

/// Maximum number of networks whose requests are answered.
pub(crate) const NETWORKS_MAX: usize = 64;
/// Maximum number of the server's addresses.
pub(crate) const ADDRESSES_MAX: usize = 16;
/// XXH3's secret, as words.
const SECRET: [u64; 24] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
    0xcb00_c391_bb52_283c,
    0xa32e_531b_8b65_d088,
    0x4ef9_0da2_9748_6471,
    0xd8ac_dea9_46ef_1938,
    0x3f34_9ce3_3f76_faa8,
    0x1d4f_0bc7_c7bb_dcf9,
    0x3159_b4cd_4be0_518a,
    0x6473_78d9_c97e_9fc8,
    0xc3eb_d334_83ac_c5ea,
    0xeb63_13fa_ffa0_81c5,
    0x49da_f0b7_51dd_0d17,
    0x9e68_d429_2655_16d3,
    0xfca1_477d_58be_162b,
    0xce31_d07a_d1b8_f88f,
    0x2804_1695_8f3a_cb45,
    0x7e40_4bbb_cafb_d7af,
];

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// First address of the network.
    pub address: IpAddr,
    /// Number of significant bits.
    pub bits: u8,
}

/// Settings of the native protocol.
#[derive(Clone)]
pub struct NativeOptions {
    /// UDP ports, first and last.
    pub ports: (u16, u16),
    /// Longest datagram, as in the directory.
    pub payload_bytes_max: usize,
    /// Secret of the cookies: SipHash-1-3, with 64 seconds to an epoch.
    pub cookie_key: [u64; 2],
    /// Generation of the directory, until
    /// [`KernelGet::set_generation`](crate::KernelGet::set_generation).
    pub generation: u32,
}

impl std::fmt::Debug for NativeOptions {
    /// Omits the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = formatter.debug_struct("NativeOptions");
        fields
            .field("ports", &self.ports)
            .field("payload_bytes_max", &self.payload_bytes_max)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// Settings of the program.
#[derive(Clone, Debug)]
pub struct GetOptions {
    /// Layout of the image.
    pub geometry: Geometry,
    /// Unix time, in milliseconds, at zero of the coarse monotonic clock, which is the clock of
    /// expiries.
    pub clock_offset_ms: u64,
    /// UDP port of memcached's protocols.
    pub memcached_port: Option<u16>,
    /// Settings of the native protocol, if it is enabled.
    pub native: Option<NativeOptions>,
    /// Addresses that the server listens on; empty: all addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Networks whose requests are answered on memcached's port.
    pub networks: Vec<Network>,
    /// CPUs that may take over datagrams; empty: none.
    pub spread_cpus: Vec<usize>,
}

/// Place where the program runs: `enum place`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the interface. It answers every request itself.
    Interface,
    /// On the interface. It sends some datagrams to other CPUs.
    Spreading,
    /// On a CPU that gets datagrams from the interface's CPU.
    OtherCpu,
}

/// Configuration of the program in its memory layout. It holds secrets, so it has no `Debug`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Configuration {
    hash_1_3: u64,
    hash_4_8: u64,
    hash_9_16: [u64; 2],
    hash_mix: [u64; 16],
    hash_mix_late: [u64; 14],
    hash_mix_last: [u64; 2],
    hash_stripes: [u64; 10],
    hash_last_stripe: [u64; 8],
    hash_merge: [u64; 8],
    secret: [u64; 2],
    partition_bits: u64,
    partition_bytes: u64,
    buckets_first: u64,
    spare_shift: u64,
    is_store: u64,
    offset_mask: u64,
    frequency_max: u64,
    reinsert_percent: u64,
    namespace_delimiter: u64,
    clock_offset_ns: u64,
    cpu_mask: u64,
    place: u64,
    memcached_port: u64,
    native_first: u64,
    native_last: u64,
    reply_bytes_max: [u64; 2],
    native_bytes_max: u64,
    native_reply_bytes_max: [u64; 2],
    cookie_key: [u64; 2],
    partial_checksums: u64,
    addresses_count: u64,
    networks_count: u64,
    addresses: [[u64; 2]; ADDRESSES_MAX],
    networks: [NetworkWords; NETWORKS_MAX],
}

/// Memory layout of `struct network`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct NetworkWords {
    is_v6: u64,
    address: [u64; 2],
    mask: [u64; 2],
}

/// A value that equals no byte.
const NO_BYTE: u64 = 256;
/// Longest reply of memcached's protocols in one datagram.
const REPLY_BYTES_MAX: usize = 1400;
/// Longest datagram to process, and longest reply: `PAYLOAD_BYTES_MAX` in C.
const PAYLOAD_BYTES_MAX: usize = 1472;
const IPV4_UDP_BYTES: usize = 28;
const IPV6_UDP_BYTES: usize = 48;

impl Configuration {
    /// Creates the configuration for an interface with these addresses, MTU and checksum state.
    pub fn new(
        options: &GetOptions,
        addresses: &[IpAddr],
        (mtu, partial_checksums): (usize, bool),
        cpus: usize,
    ) -> Self {
        let GetOptions { geometry, .. } = options;
        let seed = geometry.seed;
        let seed_4_8 = seed ^ u64::from((seed as u32).swap_bytes()) << 32;
        let secret = SECRET.map(u64::to_le_bytes).concat();
        // Longer keys have a secret whose aligned words were changed by the seed.
        let long = seeded(SECRET, seed).map(u64::to_le_bytes).concat();
        let native = options.native.as_ref();
        // An empty range if the protocol is disabled.
        let (native_first, native_last) = native.map_or((1, 0), |native| native.ports);
        let native_bytes_max = native.map_or(0, |native| native.payload_bytes_max);
        let frame_payload_bytes = |headers: usize| mtu.saturating_sub(headers).min(PAYLOAD_BYTES_MAX) as u64;
        let mut this = Self {
            hash_1_3: ((SECRET[0] ^ SECRET[0] >> 32) & 0xffff_ffff).wrapping_add(seed),
            hash_4_8: (SECRET[1] ^ SECRET[2]).wrapping_sub(seed_4_8),
            hash_9_16: [
                (SECRET[3] ^ SECRET[4]).wrapping_add(seed),
                (SECRET[5] ^ SECRET[6]).wrapping_sub(seed),
            ],
            hash_mix: seeded(words_from(&secret, 0), seed),
            hash_mix_late: seeded(words_from(&secret, 3), seed),
            hash_mix_last: seeded(words_from(&secret, 119), seed),
            hash_stripes: words_from(&long, 0),
            hash_last_stripe: words_from(&long, 121),
            hash_merge: words_from(&long, 11),
            secret: geometry.secret.words(),
            partition_bits: geometry.partition_bits.into(),
            partition_bytes: geometry.partition_bytes as u64,
            buckets_first: geometry.buckets_first,
            spare_shift: if geometry.main_per_spare == 5 { 34 } else { 35 },
            is_store: geometry.is_store.into(),
            offset_mask: (1 << geometry.offset_bits) - 1,
            frequency_max: geometry.frequency_max,
            reinsert_percent: geometry.due_percent.unwrap_or(u64::MAX),
            namespace_delimiter: geometry.namespace_delimiter.map_or(NO_BYTE, u64::from),
            clock_offset_ns: options.clock_offset_ms * 1_000_000,
            cpu_mask: cpus.next_power_of_two() as u64 - 1,
            place: Place::Interface as u64,
            memcached_port: options.memcached_port.unwrap_or(0).into(),
            native_first: native_first.into(),
            native_last: native_last.into(),
            reply_bytes_max: [IPV4_UDP_BYTES, IPV6_UDP_BYTES]
                .map(|headers| frame_payload_bytes(headers).min(REPLY_BYTES_MAX as u64)),
            native_bytes_max: native_bytes_max as u64,
            native_reply_bytes_max: [IPV4_UDP_BYTES, IPV6_UDP_BYTES].map(frame_payload_bytes),
            cookie_key: native.map_or([0; 2], |native| native.cookie_key),
            partial_checksums: partial_checksums.into(),
            addresses_count: addresses.len().min(ADDRESSES_MAX) as u64,
            networks_count: options.networks.len().min(NETWORKS_MAX) as u64,
            addresses: [[0; 2]; ADDRESSES_MAX],
            networks: [NetworkWords::default(); NETWORKS_MAX],
        };
        for (place, address) in this.addresses.iter_mut().zip(addresses) {
            *place = words(*address);
        }
        for (place, network) in this.networks.iter_mut().zip(&options.networks) {
            *place = NetworkWords {
                is_v6: network.address.is_ipv6().into(),
                address: words(network.address),
                mask: mask(network),
            };
        }
        this
    }

    /// Returns the same configuration for another place.
    pub fn at(self, place: Place) -> Self {
        Self { place: place as u64, ..self }
    }

    /// Returns the bytes for the map.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the structure is words without gaps, so all of its bytes are initialised.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

/// Returns words of a byte string, from a byte on.
fn words_from<const WORDS: usize>(bytes: &[u8], at: usize) -> [u64; WORDS] {
    let (words, _) = bytes[at..].as_chunks::<8>();
    std::array::from_fn(|word| u64::from_le_bytes(words[word]))
}

/// Changes words of the secret by the seed: even ones by addition, odd ones by subtraction.
fn seeded<const WORDS: usize>(words: [u64; WORDS], seed: u64) -> [u64; WORDS] {
    std::array::from_fn(|word| match word % 2 {
        0 => words[word].wrapping_add(seed),
        _ => words[word].wrapping_sub(seed),
    })
}

/// Converts an address to two words as the program loads them; IPv4 as ::ffff:a.b.c.d.
fn words(address: IpAddr) -> [u64; 2] {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    halves(u128::from_be_bytes(octets))
}

fn mask(network: &Network) -> [u64; 2] {
    let free = match network.address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    } - u32::from(network.bits);
    halves(u128::MAX.checked_shl(free).unwrap_or(0))
}

fn halves(bits: u128) -> [u64; 2] {
    let bytes = bits.to_be_bytes();
    let (halves, _) = bytes.as_chunks::<8>();
    [halves[0], halves[1]].map(u64::from_ne_bytes)
}
