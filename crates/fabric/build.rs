//! Builds the shim over libfabric (feature `libfabric`).

use std::process::Command;

const OLDEST: &str = "libfabric >= 1.17";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_LIBFABRIC").is_none() {
        return;
    }
    for source in ["fabric.h", "internal.h", "fabric.c", "transfers.c"] {
        println!("cargo:rerun-if-changed=shims/{source}");
    }
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let mut build = cc::Build::new();
    build.files(["shims/fabric.c", "shims/transfers.c"]).opt_level(2).warnings(true).extra_warnings(true);
    if std::env::var_os("CARGO_FEATURE_TESTING").is_some() {
        build.define("MICANITE_FABRIC_TESTING", None);
    }
    pkg_config(&["--print-errors", OLDEST]);
    for flag in pkg_config(&["--cflags", "libfabric"]) {
        build.flag(flag);
    }
    // The library itself is loaded when it is first asked for.
    build.compile("micanite_fabric");
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
    eprintln!("the feature libfabric requires libfabric 1.17 or newer with its headers, and pkg-config:");
    eprintln!("  apt-get install libfabric-dev pkg-config     (or scripts/deps fabric)");
    eprintln!("or build without --features libfabric");
    eprintln!("{}", why.trim());
    std::process::exit(1);
}
