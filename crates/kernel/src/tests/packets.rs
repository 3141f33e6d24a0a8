//! Replies of several packets.

use micanite_bpf::{Object, ProgramType, load_program};

use super::fixture::can_load;

/// Calls `bpf_clone_redirect(context, 1, 0)`, which would send a copy, and returns XDP_PASS.
static CLONES: Object = Object {
    instructions: &[
        0x0000_0001_0000_02b7,
        0x0000_0000_0000_03b7,
        0x0000_000d_0000_0085,
        0x0000_0002_0000_00b7,
        0x0000_0000_0000_0095,
    ],
    names: &[],
    functions: &[],
};

/// The kernel gives a program of XDP no way to a second packet; docs/kernel-program.md shows the words.
#[test]
fn a_second_packet_is_refused() {
    if !can_load() {
        return;
    }
    let bound = |name: &str| unreachable!("no map {name}");
    let refused = load_program((ProgramType::Xdp, "clones"), &CLONES, bound).unwrap_err();
    assert!(refused.log.contains("cannot use helper bpf_clone_redirect#13"), "{}", refused.log);
}
