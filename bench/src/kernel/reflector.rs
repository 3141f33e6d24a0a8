//! The program that only reflects, on an interface: what this medium can do at most.

use std::os::fd::AsFd;

use clap::Args;
use micanite_bpf::{MODE_NATIVE, ProgramType, attach, load_program};

use super::injector::interface;
use crate::Result;

#[cfg(reflect_program)]
mod compiled {
    include!(concat!(env!("OUT_DIR"), "/reflect_program.rs"));
}
#[cfg(not(reflect_program))]
mod compiled {
    pub static OBJECT: micanite_bpf::Object = micanite_bpf::Object::NONE;
}

/// True if the program was compiled when this was built.
pub(super) const IS_BUILT: bool = !compiled::OBJECT.instructions.is_empty();

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The interface
    #[arg(long)]
    interface: String,
}

/// Reflects until it is ended.
pub(crate) fn run(options: &Options) -> Result<()> {
    let program = load_program((ProgramType::Xdp, "reflect"), &compiled::OBJECT, |name| {
        unreachable!("bpf/bench/reflect.c has no map {name}")
    })
    .map_err(|refused| format!("the kernel refuses the XDP program: {refused}"))?;
    let interface = interface(&options.interface)?;
    // Detached when this ends.
    let _link = attach(program.as_fd(), interface, MODE_NATIVE)?;
    loop {
        std::thread::park();
    }
}

#[cfg(all(test, reflect_program))]
mod tests {
    use super::*;
    use crate::generator::frames::FrameMaker;
    use crate::harness::namespace;
    use micanite_net::frames::{ReceiveChecksums, parse};
    use micanite_test_skip::skip;

    #[test]
    fn a_datagram_comes_back_to_its_sender() {
        if !nix::unistd::geteuid().is_root() {
            return skip("loading a BPF program needs root");
        }
        let unbound = |name: &str| panic!("no map {name}");
        let kind = (ProgramType::Xdp, "reflect");
        let program = load_program(kind, &compiled::OBJECT, unbound).unwrap();
        let way = namespace::way(1);
        let frame = FrameMaker::new(&way).frame(b"payload");
        let (verdict, back, _) = micanite_bpf::run(program.as_fd(), &frame, 1).unwrap();
        assert_eq!(verdict, 3, "XDP_TX");
        let found = parse(&back, ReceiveChecksums::Unverified).unwrap();
        assert_eq!((found.source, found.destination), (way.server.1, way.client.1));
        assert_eq!(back[..6], way.client.0);
        assert!(back.ends_with(b"payload"));
        let mut other = frame;
        other[23] = 6;
        assert_eq!(micanite_bpf::run(program.as_fd(), &other, 1).unwrap().0, 2, "XDP_PASS");
    }
}
