//! Builds the C parts of this crate: the XDP program (if clang is installed), and the shim over
//! DPDK (feature `dpdk`).

use std::process::Command;

use micanite_bpf::object::Build;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    Build {
        source: "bpf/port.c",
        includes: &[],
        cfg: "xdp_program",
        feature: "AF_XDP (--bypass xdp:INTERFACE)",
    }
    .run();
    if std::env::var_os("CARGO_FEATURE_DPDK").is_some() {
        dpdk();
    }
}

/// Compiles the shim and links DPDK's libraries, with the flags of `pkg-config`.
fn dpdk() {
    for source in ["dpdk.h", "dpdk_queue.h", "dpdk_gate.h", "dpdk_burst.c", "dpdk_gate.c", "dpdk_port.c"] {
        println!("cargo:rerun-if-changed=shims/{source}");
    }
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let mut build = cc::Build::new();
    build
        .files(["shims/dpdk_burst.c", "shims/dpdk_gate.c", "shims/dpdk_port.c"])
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true);
    pkg_config(&["--print-errors", "libdpdk >= 22.11"]);
    for flag in pkg_config(&["--cflags", "libdpdk"]) {
        build.flag(flag);
    }
    build.compile("micanite_dpdk");
    for directory in pkg_config(&["--libs-only-L", "libdpdk"]) {
        println!("cargo:rustc-link-search=native={}", directory.trim_start_matches("-L"));
    }
    // DPDK loads drivers from its own directory when the environment starts.
    for library in ["ethdev", "mempool", "mbuf", "eal"] {
        println!("cargo:rustc-link-lib=dylib=rte_{library}");
    }
}

/// Returns the words of `pkg-config`'s answer.
fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    match Command::new(&program).args(arguments).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
        }
        Ok(output) => fail(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => fail(&format!("{program}: {error}")),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("the feature dpdk requires DPDK 22.11 or newer with its headers, and pkg-config:");
    eprintln!("  apt-get install libdpdk-dev pkg-config     (or scripts/deps dpdk)");
    eprintln!("or build without --features dpdk");
    eprintln!("{}", why.trim());
    std::process::exit(1);
}
