//! The program that answers SETs where their segments arrive (`bpf/stored.c`), and its maps.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use micanite_bpf::{
    Bound, Map, MapOptions, MapType, ProgramType, attach_to_sockets, load_program, possible_cpus,
};

use crate::Result;

#[cfg(stored_program)]
mod compiled {
    include!(concat!(env!("OUT_DIR"), "/stored_program.rs"));
}
#[cfg(not(stored_program))]
mod compiled {
    pub static OBJECT: micanite_bpf::Object = micanite_bpf::Object::NONE;
}

/// Whether the program was compiled when this was built.
pub(super) const IS_BUILT: bool = !compiled::OBJECT.instructions.is_empty();
/// What it counts, in the order of `enum counter`.
pub(super) const COUNTERS: [&str; 6] = [
    "segments",
    "requests",
    "other_verb",
    "partial",
    "long_line",
    "refused",
];
const SOCKETS_MAX: usize = 1 << 16;

/// The program, running for the sockets that were added.
pub(super) struct Program {
    sockets: Map,
    counters: Map,
    cpus: usize,
    _program: OwnedFd,
}

impl Program {
    pub fn load() -> Result<Self> {
        if !IS_BUILT {
            return Err("built without clang; apt-get install clang, build again".into());
        }
        let map = |kind, name, value_bytes, entries| {
            Map::create(&MapOptions::new((kind, name), 4, value_bytes, entries))
                .map_err(|error| format!("the kernel refuses a BPF map: {error}"))
        };
        let sockets = map(MapType::SocketHash, "sockets", 8, SOCKETS_MAX)?;
        let counters = map(MapType::PerCpuArray, "counters", 8, COUNTERS.len())?;
        let program = load_program(
            (ProgramType::SocketSegments, "micanite_stored"),
            &compiled::OBJECT,
            |name| {
                Bound::Map(match name {
                    "sockets" => &sockets,
                    "counters" => &counters,
                    other => unreachable!("bpf/stored.c has no map {other}"),
                })
            },
        )
        .map_err(|refused| format!("the kernel refuses the program: {refused}"))?;
        attach_to_sockets(program.as_fd(), &sockets)?;
        Ok(Self {
            sockets,
            counters,
            cpus: possible_cpus(),
            _program: program,
        })
    }

    /// From now on it sees what arrives on this socket first, which must be connected.
    pub fn add(&self, socket: impl AsFd, client_port: u16) -> io::Result<()> {
        let descriptor = u64::from(socket.as_fd().as_raw_fd() as u32);
        // On the wire the higher byte comes first; the program sees that in the upper half.
        let key = (u32::from(client_port.to_be()) << 16).to_ne_bytes();
        self.sockets.set(&key, &descriptor.to_ne_bytes())
    }

    /// What it has done so far.
    pub fn counters(&self) -> Result<[u64; COUNTERS.len()]> {
        let mut all = [0; COUNTERS.len()];
        for (number, counter) in (0..).zip(&mut all) {
            *counter = self.counters.sum(number, self.cpus)?;
        }
        Ok(all)
    }
}
