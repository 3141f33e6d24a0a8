//! Turns the feature `loom` into a cfg. `RUSTFLAGS="--cfg loom"` would compile every dependency
//! again.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_LOOM").is_some() {
        println!("cargo::rustc-cfg=loom");
    }
}
