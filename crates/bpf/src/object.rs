//! For build scripts: compiles a program with clang, if it is installed, and writes the object as
//! Rust source: its instructions and their references. The server then needs no ELF reader.
//!
//! A program is one section, `xdp`, that holds all its functions. The first function is the entry.
//! External references (`extern`) name maps, or the only value of an array; the loader decides.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Section of the program.
const SECTION: &str = "xdp";
/// Types of relocations: a 64-bit immediate, a call.
const RELOCATION_IMMEDIATE: u64 = 1;
const RELOCATION_CALL: u64 = 10;
/// ELF type and binding of a global function.
const SYMBOL_FUNCTION: u8 = 2;
const BINDING_GLOBAL: u8 = 1;
/// Mark in the upper half of the register byte: the immediate is the distance to a function.
const SOURCE_FUNCTION: u64 = 4 << 12;

/// Inputs and outputs of a build.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// C source, relative to the crate.
    pub source: &'a str,
    /// Files that the source includes.
    pub includes: &'a [&'a str],
    /// The `cfg` to set on success. `CFG.rs` in `OUT_DIR` then defines `OBJECT`.
    pub cfg: &'a str,
    /// Feature that the server lacks without the program.
    pub feature: &'a str,
}

impl Build<'_> {
    /// Builds the program, or prints a warning that names the missing feature.
    ///
    /// # Panics
    /// If it is not called by a build script.
    pub fn run(&self) {
        for file in self.includes.iter().chain([&self.source]) {
            println!("cargo:rerun-if-changed={file}");
        }
        println!("cargo:rerun-if-env-changed=CLANG");
        println!("cargo:rustc-check-cfg=cfg({})", self.cfg);
        let little = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "little");
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        let result = match little {
            true => self.program(&out),
            false => Err("the programs require a little-endian machine".to_owned()),
        };
        match result {
            Ok(source) => {
                let file = out.join(format!("{}.rs", self.cfg));
                fs::write(file, source).expect("OUT_DIR can be written");
                println!("cargo:rustc-cfg={}", self.cfg);
            }
            Err(why) => {
                // Watches the directories where clang would be installed, rather than PATH: a
                // changed PATH should not rebuild everything.
                for directory in ["/usr/bin", "/usr/local/bin"] {
                    println!("cargo:rerun-if-changed={directory}");
                }
                println!("cargo:warning=without {}: {why}", self.feature);
            }
        }
    }

    /// Compiles the program; returns it as Rust source.
    fn program(&self, out: &Path) -> Result<String, String> {
        let out = out.join(format!("{}.o", self.cfg));
        let clang = clang().ok_or("clang not found in PATH or $CLANG (apt-get install clang)")?;
        let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        let output = Command::new(&clang)
            .args(["-target", "bpfel", "-mcpu=v3", "-O2", "-Wall", "-Werror"])
            .arg(format!("-DMACHINE_{machine}"))
            .args(["-c", self.source, "-o"])
            .arg(&out)
            .output()
            .map_err(|error| format!("{clang}: {error}"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
            return Err(format!("{clang} does not compile {}: {errors}", self.source));
        }
        let object = fs::read(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        source(&object).ok_or_else(|| format!("{clang} produced an object of an unexpected form"))
    }
}

/// Finds `$CLANG`, `clang`, or a clang with a version in its name.
fn clang() -> Option<String> {
    let works = |name: &String| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let versions = (11..=25).rev().map(|version| format!("clang-{version}"));
    env::var("CLANG").into_iter().chain(["clang".to_owned()]).chain(versions).find(works)
}

/// Converts an object to the Rust source that the crate includes.
fn source(object: &[u8]) -> Option<String> {
    let sections = sections(object)?;
    let (own, section) = sections.iter().enumerate().find(|(_, section)| section.name == SECTION)?;
    let symbols = sections.iter().find(|section| section.name == ".symtab")?;
    let texts = sections.get(symbols.link)?;
    let mut instructions: Vec<u64> =
        section.bytes.chunks_exact(8).map(|instruction| u64_at(instruction, 0)).collect::<Option<_>>()?;
    let mut names = String::new();
    let relocations = format!(".rel{SECTION}");
    let relocations = sections.iter().find(|section| section.name == relocations);
    for relocation in relocations.map_or(&[][..], |of| of.bytes).chunks_exact(16) {
        let (at, info) = (u64_at(relocation, 0)? as usize / 8, u64_at(relocation, 8)?);
        let symbol = symbols.bytes.get((info >> 32) as usize * 24..)?;
        let value = u64_at(symbol, 8)? as usize / 8;
        let is_own = usize::from(u16_at(symbol, 6)?) == own;
        match (info & 0xffff_ffff, is_own) {
            (RELOCATION_IMMEDIATE, false) => {
                let name = text(texts.bytes.get(u32_at(symbol, 0)? as usize..)?)?;
                writeln!(names, "    ({at}, {name:?}),").ok()?;
            }
            // Address of a function: convert it to a distance in instructions.
            (RELOCATION_IMMEDIATE, true) => {
                let target = value + (immediate(instructions[at]) / 8) as usize;
                let away = target as i64 - at as i64 - 1;
                instructions[at] = with_immediate(instructions[at], away) | SOURCE_FUNCTION;
            }
            (RELOCATION_CALL, true) => {
                let target = value as i64 + immediate(instructions[at]) + 1;
                instructions[at] = with_immediate(instructions[at], target - at as i64 - 1);
            }
            _ => return None,
        }
    }
    let mut functions = functions(symbols, texts, own)?;
    functions.sort_unstable();
    let mut source = String::from(
        "pub static OBJECT: micanite_bpf::Object = micanite_bpf::Object {\n    instructions: &[\n",
    );
    for instruction in instructions {
        writeln!(source, "    {instruction:#018x},").ok()?;
    }
    source.push_str("    ],\n    names: &[\n");
    source.push_str(&names);
    writeln!(source, "    ],\n    functions: &{functions:?},\n}};").ok()?;
    Some(source)
}

/// Lists the functions of the section: first instruction, name, whether it is global.
fn functions<'o>(
    symbols: &Section<'o>,
    texts: &Section<'o>,
    own: usize,
) -> Option<Vec<(usize, &'o str, bool)>> {
    let mut functions = Vec::new();
    for symbol in symbols.bytes.chunks_exact(24) {
        if symbol[4] & 15 == SYMBOL_FUNCTION && usize::from(u16_at(symbol, 6)?) == own {
            let name = text(texts.bytes.get(u32_at(symbol, 0)? as usize..)?)?;
            let is_global = symbol[4] >> 4 == BINDING_GLOBAL;
            functions.push((u64_at(symbol, 8)? as usize / 8, name, is_global));
        }
    }
    Some(functions)
}

const fn immediate(instruction: u64) -> i64 {
    (instruction >> 32) as i32 as i64
}

const fn with_immediate(instruction: u64, immediate: i64) -> u64 {
    instruction & 0xffff_ffff | (immediate as u64) << 32
}

struct Section<'o> {
    name: &'o str,
    bytes: &'o [u8],
    link: usize,
}

/// Reads the sections of a little-endian 64-bit ELF object.
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
