//! Builds the programs of the benchmarks of `--kernel-get`, where clang is there.

use micanite_bpf::object::Build;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let product = [
        "answer.h",
        "ahead.h",
        "hash.h",
        "image.h",
        "index_hash.h",
        "kernel.h",
        "memcached.h",
        "native.h",
        "reply.h",
        "siphash.h",
        "bench/again.h",
    ]
    .map(|file| format!("../bpf/{file}"));
    let product: Vec<_> = product.iter().map(String::as_str).collect();
    let returning = ["../bpf/bench/return.h", "../../bpf/bench/swap_ends.h"];
    for (name, includes) in [
        ("reflect", &returning[1..]),
        ("inject", &[]),
        ("count", &[]),
        ("return_same", &returning),
        ("return_new", &returning),
        ("again", &product),
        ("again_locked", &product),
    ] {
        let (source, cfg) = (format!("../bpf/bench/{name}.c"), format!("{name}_program"));
        Build { source: &source, includes, cfg: &cfg, feature: "`micanite-lab kernel`" }.run();
    }
}
