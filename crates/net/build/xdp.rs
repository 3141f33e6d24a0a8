//! Compiles the XDP program where clang is there: `bpf/port.c` becomes `xdp_program.rs` in `OUT_DIR`, the instructions
//! and which of them name which map, under `cfg(xdp_program)`. The object is read here, so the server needs no reader of
//! objects.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "../../bpf/port.c";
/// The section that the program lies in, and the instructions that name a map.
const SECTION: &str = "xdp";
/// The type of a relocation of a 64-bit immediate (R_BPF_64_64).
const RELOCATION_MAP: u64 = 1;

/// Builds the program, or says what is left out.
pub fn build() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-changed=build/xdp.rs");
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rustc-check-cfg=cfg(xdp_program)");
    let little = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "little");
    let result = match little {
        true => program(),
        false => Err("the XDP program is for little-endian machines".to_owned()),
    };
    match result {
        Ok(source) => {
            let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
            fs::write(out.join("xdp_program.rs"), source).expect("OUT_DIR can be written");
            println!("cargo:rustc-cfg=xdp_program");
        }
        Err(why) => {
            // Where it will be when it is installed; a search path that changes is no reason to build all anew.
            for directory in ["/usr/bin", "/usr/local/bin"] {
                println!("cargo:rerun-if-changed={directory}");
            }
            println!("cargo:warning=without AF_XDP (--port xdp:INTERFACE): {why}");
        }
    }
}

/// The compiled program as Rust source.
fn program() -> Result<String, String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("port.o");
    let clang = clang().ok_or("no clang found (apt-get install clang), nor in $CLANG")?;
    let output = Command::new(&clang)
        .args(["-target", "bpfel", "-O2", "-Wall", "-Werror", "-c", SOURCE])
        .arg("-o")
        .arg(&out)
        .output()
        .map_err(|error| format!("{clang}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        return Err(format!("{clang} does not compile bpf/port.c: {said}"));
    }
    let object = fs::read(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    source(&object).ok_or_else(|| format!("{clang} made an object of an unexpected form"))
}

/// `$CLANG`, `clang`, or one with a version in its name.
fn clang() -> Option<String> {
    let works = |name: &String| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let versions = (11..=25).rev().map(|version| format!("clang-{version}"));
    env::var("CLANG")
        .into_iter()
        .chain(["clang".to_owned()])
        .chain(versions)
        .find(works)
}

/// What the server includes.
fn source(object: &[u8]) -> Option<String> {
    let sections = sections(object)?;
    let of_name = |name: &str| sections.iter().find(|section| section.name == name);
    let symbols = of_name(".symtab")?;
    let names = sections.get(symbols.link)?;
    let mut source = String::from("/// One instruction each.\n");
    let instructions = of_name(SECTION)?.bytes.chunks_exact(8);
    writeln!(
        source,
        "pub static INSTRUCTIONS: [u64; {}] = [",
        instructions.len()
    )
    .ok()?;
    for instruction in instructions {
        writeln!(source, "    {:#018x},", u64_at(instruction, 0)?).ok()?;
    }
    source
        .push_str("];\n/// Which of them get which map.\npub static MAPS: &[(usize, &str)] = &[\n");
    for relocation in of_name(&format!(".rel{SECTION}"))?.bytes.chunks_exact(16) {
        let (at, info) = (u64_at(relocation, 0)?, u64_at(relocation, 8)?);
        if info & 0xffff_ffff != RELOCATION_MAP {
            return None;
        }
        let symbol = symbols.bytes.get((info >> 32) as usize * 24..)?;
        let name = text(names.bytes.get(u32_at(symbol, 0)? as usize..)?)?;
        writeln!(source, "    ({}, {name:?}),", at / 8).ok()?;
    }
    source.push_str("];\n");
    Some(source)
}

struct Section<'o> {
    name: &'o str,
    bytes: &'o [u8],
    link: usize,
}

/// Those of an ELF object, 64 bits, little endian.
fn sections(object: &[u8]) -> Option<Vec<Section<'_>>> {
    object.strip_prefix(b"\x7fELF\x02\x01")?;
    let (table, count) = (u64_at(object, 40)? as usize, u16_at(object, 60)?);
    let header = |number: usize| object.get(table + number * 64..);
    let bytes = |number: usize| {
        let header = header(number)?;
        let (at, bytes) = (u64_at(header, 24)? as usize, u64_at(header, 32)? as usize);
        object.get(at..)?.get(..bytes)
    };
    let names = bytes(usize::from(u16_at(object, 62)?))?;
    (0..usize::from(count))
        .map(|number| {
            let name = u32_at(header(number)?, 0)? as usize;
            Some(Section {
                name: text(names.get(name..)?)?,
                bytes: bytes(number)?,
                link: u32_at(header(number)?, 40)? as usize,
            })
        })
        .collect()
}

fn text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
