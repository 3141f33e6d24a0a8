//! Loads the program and attaches it to interfaces.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use micanite_bpf::{Bound, Map, MapOptions, MapType, Object, ProgramType, load_program, possible_cpus};
use micanite_net::xdp::{Attached, Interface, Mode, attach};

use crate::configuration::{ADDRESSES_MAX, Configuration, GetOptions, Place};
use crate::counters::{COUNTERS_MAX, Counters, REPORT_WORDS, SAMPLES};
use crate::maps::ImageMaps;
use crate::shared::SharedWords;

#[cfg(get_program)]
mod compiled {
    include!(concat!(env!("OUT_DIR"), "/get_program.rs"));
}
#[cfg(not(get_program))]
mod compiled {
    pub static OBJECT: micanite_bpf::Object = micanite_bpf::Object::NONE;
}

/// Tells whether the program was compiled into this build.
pub const IS_BUILT: bool = !compiled::OBJECT.instructions.is_empty();
const NO_RIGHTS: &str = "loading the XDP program requires root, \
    or the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";
/// Name of the program in the kernel's lists.
const NAME: &str = "micanite_get";
/// Bytes of memory for one run: `SCRATCH_BYTES` in `bpf/kernel.h`.
const SCRATCH_BYTES: usize = 8192;
/// Layout of `struct control`.
const CONTROL_WORDS: usize = 3 + SPREAD_MAX;
const CONTROL_PAUSED: usize = 0;
const CONTROL_GENERATION: usize = 1;
const CONTROL_SPREAD_COUNT: usize = 2;
const CONTROL_SPREAD: usize = 3;
/// Maximum number of CPUs that take over.
const SPREAD_MAX: usize = 32;
/// Queue length of a CPU that takes over.
const CPU_QUEUE_FRAMES: u32 = 2048;

/// The program, attached to interfaces until it is dropped or the process ends.
#[derive(Debug)]
pub struct KernelGet {
    interfaces: Vec<(String, Program, Attached)>,
}

impl KernelGet {
    /// Loads and attaches the program.
    ///
    /// # Errors
    /// Describes the problem for users.
    pub fn open(
        interfaces: &[(String, Mode)],
        options: &GetOptions,
        image: &ImageMaps,
    ) -> Result<Self, String> {
        let open = |(name, mode): &(String, Mode)| {
            let inner = || {
                let interface = Interface::find(name)?;
                let program = Program::load(options, &interface, image)?;
                let mode = mode_on(&interface.driver, *mode);
                let attached = attach(program.descriptor.as_fd(), &interface, mode)?;
                Ok((name.clone(), program, attached))
            };
            inner().map_err(|why: String| format!("{name}: {why}"))
        };
        let interfaces = interfaces.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { interfaces })
    }

    /// Returns each interface with its attachment mode.
    pub fn descriptions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.interfaces.iter().map(|(name, _, attached)| (name.as_str(), attached.mode.as_str()))
    }

    /// Returns whether the program is still attached to each interface, as far as the kernel tells.
    pub fn attachments(&self) -> impl Iterator<Item = (&str, io::Result<bool>)> {
        self.interfaces.iter().map(|(name, _, attached)| (name.as_str(), attached.is_attached()))
    }

    /// Returns the counters of all interfaces together.
    pub fn counters(&self) -> Counters {
        let mut all = Counters::default();
        for (_, program, _) in &self.interfaces {
            all.add(&program.counters());
        }
        all
    }

    /// Returns the counters of each interface.
    pub fn counters_of_interfaces(&self) -> impl Iterator<Item = (&str, Counters)> {
        let interfaces = self.interfaces.iter();
        interfaces.map(|(name, program, _)| (name.as_str(), program.counters()))
    }

    /// Pauses the program, which then passes everything on, or resumes it.
    pub fn set_paused(&self, paused: bool) {
        for (_, program, _) in &self.interfaces {
            program.set_paused(paused);
        }
    }

    /// Sets the generation of the native protocol's directory.
    pub fn set_generation(&self, generation: u32) {
        for (_, program, _) in &self.interfaces {
            program.set_generation(generation);
        }
    }

    /// Distributes datagrams over these CPUs, a subset of the configured ones. With an empty list
    /// the receiving CPUs do all the work.
    pub fn set_spread(&self, cpus: &[usize]) {
        for (_, program, _) in &self.interfaces {
            program.set_spread(cpus);
        }
    }

    /// Returns how many datagrams each CPU answered.
    pub fn answered_by_cpu(&self) -> Vec<u64> {
        let mut sums = Vec::new();
        for (_, program, _) in &self.interfaces {
            sums.resize(program.cpus.max(sums.len()), 0);
            for (cpu, sum) in sums.iter_mut().enumerate().take(program.cpus) {
                // `answered` is the first counter.
                *sum += program.reports.words()[cpu * REPORT_WORDS].load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// Takes the samples: hashes of requested keys whose use the engine wants to count.
    pub fn take_samples(&self, mut visit: impl FnMut(u64)) {
        for (_, program, _) in &self.interfaces {
            program.take_samples(&mut visit);
        }
    }
}

/// Chooses generic mode on veth. A frame that veth's driver sends is lost if the peer end has no
/// XDP program, and this is not visible from here.
fn mode_on(driver: &str, mode: Mode) -> Mode {
    match mode {
        Mode::Auto if driver == "veth" => Mode::Generic,
        _ => mode,
    }
}

/// The program, loaded for one interface.
#[derive(Debug)]
pub(crate) struct Program {
    pub descriptor: OwnedFd,
    reports: SharedWords,
    control: SharedWords,
    cpus: usize,
    /// Keeps the queues and the program of the CPUs that take over.
    _other_cpus: Option<Map>,
}

/// Maps of the program.
struct Maps<'a> {
    partitions: &'a Map,
    configuration: Map,
    control: Map,
    reports: Map,
    scratches: Map,
    other_cpus: Option<Map>,
}

fn array(name: &str, bytes: usize) -> MapOptions<'_> {
    MapOptions::new((MapType::Array, name), 4, bytes, 1)
}

/// Creates a frozen map, whose contents the verifier treats as constants.
fn constant(configuration: &Configuration) -> io::Result<Map> {
    let bytes = configuration.bytes();
    let map = Map::create(&MapOptions { program_reads_only: true, ..array("configuration", bytes.len()) })?;
    map.set(&[0; 4], bytes)?;
    map.freeze()?;
    Ok(map)
}

impl<'a> Maps<'a> {
    fn create(image: &'a ImageMaps, configuration: &Configuration, cpus: usize) -> io::Result<Self> {
        let shared = |name, words| Map::create(&MapOptions { mmapable: true, ..array(name, words * 8) });
        Ok(Self {
            partitions: image.outer_map(),
            configuration: constant(configuration)?,
            control: shared("control", CONTROL_WORDS)?,
            reports: shared("reports", cpus * REPORT_WORDS)?,
            scratches: Map::create(&array("scratches", cpus * SCRATCH_BYTES))?,
            other_cpus: None,
        })
    }

    /// Loads the program for the CPUs that take over, and configures this one to send them
    /// datagrams.
    fn spread(&mut self, configuration: &Configuration, cpus: &[usize]) -> Result<(), String> {
        let refused = |error: io::Error| format!("the kernel refuses a BPF map: {error}");
        self.configuration = constant(&configuration.at(Place::OtherCpu)).map_err(refused)?;
        let program = self.load(ProgramType::XdpOnCpu, &Source::PRODUCT)?;
        let entries = possible_cpus();
        let map = MapOptions::new((MapType::CpuMap, "other_cpus"), 4, 8, entries);
        let map = Map::create(&map).map_err(refused)?;
        for cpu in cpus {
            let descriptor = program.as_raw_fd().to_ne_bytes();
            let value = [CPU_QUEUE_FRAMES.to_ne_bytes(), descriptor].concat();
            map.set(&(*cpu as u32).to_ne_bytes(), &value)
                .map_err(|error| format!("CPU {cpu} cannot take over: {error}"))?;
        }
        self.other_cpus = Some(map);
        self.configuration = constant(&configuration.at(Place::Spreading)).map_err(refused)?;
        Ok(())
    }

    fn load(&self, kind: ProgramType, source: &Source<'_>) -> Result<OwnedFd, String> {
        let bound = |name: &str| self.of_name(name).unwrap_or_else(|| (source.maps)(name));
        load_program((kind, NAME), source.object, bound).map_err(|refused| {
            if let Some(path) = std::env::var_os("MICANITE_VERIFIER_LOG") {
                // For developers of the program, who notice when the file is missing.
                let _ = std::fs::write(path, &refused.log);
            }
            match refused.error.raw_os_error() {
                Some(libc::EPERM) => NO_RIGHTS.to_owned(),
                // The verifier's message when it tracks addresses for an unprivileged user.
                Some(libc::EACCES) if refused.log.contains("for !root") => NO_RIGHTS.to_owned(),
                _ => format!("the kernel refuses the XDP program: {refused}"),
            }
        })
    }

    fn of_name(&self, name: &str) -> Option<Bound<'_>> {
        Some(match name {
            "partitions" => Bound::Map(self.partitions),
            "configuration" => Bound::Value(&self.configuration),
            "control" => Bound::Value(&self.control),
            "reports" => Bound::Value(&self.reports),
            "scratches" => Bound::Value(&self.scratches),
            // Without spreading, only dead code refers to this map.
            "other_cpus" => Bound::Map(self.other_cpus.as_ref().unwrap_or(self.partitions)),
            _ => return None,
        })
    }
}

/// A program, and the maps that only it has.
pub(crate) struct Source<'a> {
    pub object: &'a Object,
    pub maps: &'a dyn Fn(&str) -> Bound<'a>,
}

impl Source<'static> {
    const PRODUCT: Self =
        Self { object: &compiled::OBJECT, maps: &|name| unreachable!("bpf/get.c has no map {name}") };
}

impl Program {
    fn load(options: &GetOptions, interface: &Interface, image: &ImageMaps) -> Result<Self, String> {
        let own: Vec<IpAddr> = interface.addresses.iter().map(|(ip, _)| *ip).collect();
        let addresses: Vec<IpAddr> = match options.addresses.is_empty() {
            true => own,
            false => own.into_iter().filter(|ip| options.addresses.contains(ip)).collect(),
        };
        if addresses.is_empty() {
            return Err("the server listens on none of the interface's addresses (-l)".to_owned());
        }
        if addresses.len() > ADDRESSES_MAX {
            return Err(format!("the interface has more than {ADDRESSES_MAX} addresses (-l)"));
        }
        Self::with(options, &addresses, (interface.mtu, interface.has_partial_checksums()), image)
    }

    /// Loads the program for an interface with these addresses, MTU, and whether its frames may
    /// lack checksums.
    pub(crate) fn with(
        options: &GetOptions,
        addresses: &[IpAddr],
        frames: (usize, bool),
        image: &ImageMaps,
    ) -> Result<Self, String> {
        Self::of(&Source::PRODUCT, options, addresses, frames, image)
    }

    /// Loads a program over the maps of the product's.
    pub(crate) fn of(
        source: &Source<'_>,
        options: &GetOptions,
        addresses: &[IpAddr],
        frames: (usize, bool),
        image: &ImageMaps,
    ) -> Result<Self, String> {
        if !IS_BUILT {
            let text = "this program was built without clang; apt-get install clang, build again";
            return Err(text.to_owned());
        }
        let cpus = possible_cpus().next_power_of_two();
        let configuration = Configuration::new(options, addresses, frames, cpus);
        let refused = |error: io::Error| format!("the kernel refuses a BPF map: {error}");
        let mut maps = Maps::create(image, &configuration, cpus).map_err(refused)?;
        if !options.spread_cpus.is_empty() {
            maps.spread(&configuration, &options.spread_cpus)?;
        }
        let this = Self {
            descriptor: maps.load(ProgramType::Xdp, source)?,
            reports: SharedWords::new(&maps.reports, cpus * REPORT_WORDS).map_err(refused)?,
            control: SharedWords::new(&maps.control, CONTROL_WORDS).map_err(refused)?,
            cpus,
            _other_cpus: maps.other_cpus,
        };
        if let Some(native) = &options.native {
            this.set_generation(native.generation);
        }
        Ok(this)
    }

    pub(crate) fn counters(&self) -> Counters {
        let words = self.reports.words();
        Counters::of(&std::array::from_fn(|counter: usize| {
            let of_cpu = |cpu: usize| words[cpu * REPORT_WORDS + counter].load(Ordering::Relaxed);
            (0..self.cpus).map(of_cpu).sum()
        }))
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.control.words()[CONTROL_PAUSED].store(paused.into(), Ordering::Relaxed);
    }

    pub(crate) fn set_generation(&self, generation: u32) {
        self.control.words()[CONTROL_GENERATION].store(generation.into(), Ordering::Relaxed);
    }

    fn set_spread(&self, cpus: &[usize]) {
        let words = self.control.words();
        // A run that reads this meanwhile sees previous CPUs, which still work.
        for (word, cpu) in words[CONTROL_SPREAD..].iter().zip(cpus) {
            word.store(*cpu as u64, Ordering::Relaxed);
        }
        let count = cpus.len().min(SPREAD_MAX) as u64;
        words[CONTROL_SPREAD_COUNT].store(count, Ordering::Release);
    }

    pub(crate) fn take_samples(&self, mut visit: impl FnMut(u64)) {
        let words = self.reports.words();
        for cpu in 0..self.cpus {
            let first = cpu * REPORT_WORDS + COUNTERS_MAX;
            for sample in &words[first..first + SAMPLES] {
                if sample.load(Ordering::Relaxed) != 0 {
                    visit(sample.swap(0, Ordering::Relaxed));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn veth_uses_generic_mode_unless_native_is_requested() {
        assert_eq!(mode_on("veth", Mode::Auto), Mode::Generic);
        assert_eq!(mode_on("veth", Mode::Native), Mode::Native);
        assert_eq!(mode_on("virtio_net", Mode::Auto), Mode::Auto);
    }
}
