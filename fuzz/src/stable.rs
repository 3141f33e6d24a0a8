//! Fuzzing without nightly: mutates the committed inputs with a seeded generator for a given time.
//!
//! `stable TARGET CORPUS SECONDS [SEED]`. It sees no coverage, so it keeps a pool of mutants to mutate again.
//! An input that panics is written to `crash-TARGET` in the current directory, and the run fails.

use std::fs;
use std::panic;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const POOL_INPUTS_MAX: usize = 4096;
const INPUT_BYTES_MAX: usize = 16 * 1024;
const MUTATIONS_MAX: usize = 6;
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The body of a target.
type Body = fn(&[u8]);

/// The targets by name.
const TARGETS: &[(&str, Body)] = &[
    ("text_parser", micanite_wire::fuzz::text_parser),
    ("native_requests", micanite_wire::fuzz::native_requests),
    ("native_replies", micanite_wire::fuzz::native_replies),
    ("native_fabric", micanite_wire::fuzz::native_fabric),
    ("client", micanite_client::fuzz::client),
    ("chunks", micanite_chunks::fuzz::chunks),
    ("session", micanite_server::testing::fuzz::session),
    ("unauthenticated", micanite_server::testing::fuzz::unauthenticated),
    ("native_session", micanite_server::testing::fuzz::native),
    ("native_frames", micanite_server::testing::fuzz::native_frames),
    ("frames", micanite_net::frames::fuzz::frames),
    ("operations", micanite_engine::fuzz::operations),
    ("images", micanite_engine::fuzz::images),
    ("trace_readers", micanite_workload::trace::fuzz::trace_readers),
    ("trace_packets", micanite_workload::trace::fuzz::trace_packets),
];

/// Words of the protocols' grammars. Mutations insert these besides random bytes.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"get ",
    b"gets ",
    b"gat ",
    b"gats ",
    b"set ",
    b"add ",
    b"replace ",
    b"append ",
    b"prepend ",
    b"cas ",
    b"delete ",
    b"incr ",
    b"decr ",
    b"touch ",
    b"flush_all",
    b"stats",
    b"version",
    b"verbosity ",
    b"quit\r\n",
    b"shutdown",
    b"mn\r\n",
    b" noreply",
    b" 0 0 1\r\n",
    b" 0 -1 0\r\n\r\n",
    b"18446744073709551615",
    b"4294967296",
    b"-1",
    b"1048577",
    b"2000000000",
    b"\0",
    b"\x80",
    b"a",
    b"key",
    // The native protocol: a header's start, lengths, an empty word.
    b"Mi\x01\x01",
    b"Mi\x01\x02",
    b"\xff\xff\xff\xff",
    b"\x01\0\0\0",
    b"\0\0\0\0\0\0\0\0",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, corpus, seconds, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: stable TARGET CORPUS SECONDS [SEED]");
        return ExitCode::from(2);
    };
    let Some((_, body)) = TARGETS.iter().find(|(name, _)| name == target) else {
        let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("no fuzz target {target}; there are {}", names.join(", "));
        return ExitCode::from(2);
    };
    let (Ok(seconds), Ok(seed)) = (seconds.parse(), rest.first().map_or(Ok(1), |text| text.parse())) else {
        eprintln!("SECONDS and SEED are numbers");
        return ExitCode::from(2);
    };
    let pool = match read_corpus(Path::new(corpus)) {
        Ok(pool) if !pool.is_empty() => pool,
        Ok(_) => {
            eprintln!("{corpus} holds no input");
            return ExitCode::from(2);
        }
        Err(error) => {
            eprintln!("{corpus}: {error}");
            return ExitCode::from(2);
        }
    };
    fuzz(target, *body, pool, Duration::from_secs(seconds), Generator(seed))
}

/// Every file of the folder, in the order of their names so that a seed means the same run everywhere.
fn read_corpus(folder: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(fs::read).collect()
}

fn fuzz(
    name: &str,
    body: Body,
    mut pool: Vec<Vec<u8>>,
    time: Duration,
    mut generator: Generator,
) -> ExitCode {
    println!("{name}: {} inputs, {} s, seed {}", pool.len(), time.as_secs(), generator.0);
    let start = Instant::now();
    let (mut runs, mut reported) = (0u64, start);
    for index in 0.. {
        // The corpus itself goes first, as it is.
        let input = if index < pool.len() { pool[index].clone() } else { mutate(&pool, &mut generator) };
        if panic::catch_unwind(|| body(&input)).is_err() {
            let path = format!("crash-{name}");
            let written = fs::write(&path, &input);
            eprintln!("{name}: run {runs} panicked; input of {} bytes in {path}: {written:?}", input.len());
            return ExitCode::FAILURE;
        }
        runs += 1;
        if generator.below(64) == 0 && index >= pool.len() {
            keep(&mut pool, input, &mut generator);
        }
        let now = Instant::now();
        if now - reported >= REPORT_EVERY {
            reported = now;
            println!("{name}: {runs} runs in {} s", (now - start).as_secs());
        }
        if now - start >= time {
            break;
        }
    }
    println!("{name}: {runs} runs, nothing found");
    ExitCode::SUCCESS
}

/// Puts a mutant into the pool, in the place of another when it is full.
fn keep(pool: &mut Vec<Vec<u8>>, input: Vec<u8>, generator: &mut Generator) {
    if pool.len() < POOL_INPUTS_MAX {
        pool.push(input);
    } else {
        let place = generator.below(pool.len());
        pool[place] = input;
    }
}

fn mutate(pool: &[Vec<u8>], generator: &mut Generator) -> Vec<u8> {
    let mut input = pool[generator.below(pool.len())].clone();
    for _ in 0..=generator.below(MUTATIONS_MAX) {
        mutate_once(&mut input, pool, generator);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn mutate_once(input: &mut Vec<u8>, pool: &[Vec<u8>], generator: &mut Generator) {
    let at = generator.below(input.len() + 1);
    let end = at + generator.below((input.len() - at).min(64) + 1);
    match generator.below(6) {
        0 if at < input.len() => input[at] ^= 1 << generator.below(8),
        1 if at < input.len() => input[at] = generator.next() as u8,
        2 => drop(input.drain(at..end)),
        3 => drop(input.splice(at..end, WORDS[generator.below(WORDS.len())].iter().copied())),
        4 => {
            let repeated = input[at..end].repeat(1 + generator.below(4));
            input.splice(at..at, repeated);
        }
        _ => {
            let other = &pool[generator.below(pool.len())];
            input.truncate(at);
            input.extend_from_slice(&other[generator.below(other.len() + 1)..]);
        }
    }
}

/// splitmix64: small, seeded, the same everywhere.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
