//! Compiles the program if clang is installed.

use micanite_bpf::object::Build;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    Build {
        source: "../../bpf/get.c",
        includes: &[
            "../../bpf/ahead.h",
            "../../bpf/answer.h",
            "../../bpf/hash.h",
            "../../bpf/image.h",
            "../../bpf/index_hash.h",
            "../../bpf/kernel.h",
            "../../bpf/memcached.h",
            "../../bpf/native.h",
            "../../bpf/reply.h",
            "../../bpf/siphash.h",
        ],
        cfg: "get_program",
        feature: "GETs in the kernel (--kernel-get INTERFACE)",
    }
    .run();
}
