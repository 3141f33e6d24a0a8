//! Builds the programs of the benchmarks of `--kernel-get`, where clang is there.

use micanite_bpf::object::Build;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for (source, cfg, feature) in [
        ("../../bpf/reflect.c", "reflect_program", "`micanite-lab kernel`"),
        ("../../bpf/inject.c", "inject_program", "`micanite-lab kernel`"),
    ] {
        Build { source, includes: &[], cfg, feature }.run();
    }
}
