//! Time of the program alone, without cable, driver and interrupt: the kernel repeats it on frames from a
//! list. With a lock around each answer and without, on one core and on two at once, by kind of request.

use std::sync::{Arc, Barrier};

use micanite_bpf::{Bound, Map, MapOptions, MapType, Object};
use micanite_engine::{Cache, Config, Layout, Maps};
use micanite_kernel::testing::TestProgram;
use micanite_kernel::{GetOptions, IMAGE_BYTES_MAX, ImageMaps, Network};

use super::super::sides::rest;
use super::super::{Bench, Options};
use super::CASE;
use crate::Result;
use crate::generator::frames::{FrameMaker, Way};
use crate::harness::{in_process, namespace, system};
use crate::results::measurement::Measurement;

#[cfg(all(again_program, again_locked_program))]
mod compiled {
    pub mod again {
        include!(concat!(env!("OUT_DIR"), "/again_program.rs"));
    }
    pub mod locked {
        include!(concat!(env!("OUT_DIR"), "/again_locked_program.rs"));
    }
}
#[cfg(not(all(again_program, again_locked_program)))]
mod compiled {
    pub mod again {
        pub static OBJECT: micanite_bpf::Object = micanite_bpf::Object::NONE;
    }
    pub use again as locked;
}

/// Layout of `struct list` in `bpf/bench/again.h`.
const FRAMES_MAX: usize = 4096;
const FRAME_BYTES_MAX: usize = 512;
const HEAD_BYTES: usize = 16 + 64 * 64;
const MEMORY_BYTES: usize = 64 << 20;
const VALUE_BYTES: usize = 8;
const VERDICT_SENT: u32 = 3;

/// A kind of request: keys of one length, so many in a datagram.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    key_bytes: usize,
    keys: usize,
    hits: bool,
    /// Measured under a lock and on two cores, too.
    is_compared: bool,
}

const fn hit(name: &'static str, key_bytes: usize) -> Shape {
    Shape { name, key_bytes, keys: 1, hits: true, is_compared: false }
}

const SHAPES: [Shape; 10] = [
    Shape { is_compared: true, ..hit("key of 8 bytes", 8) },
    Shape { is_compared: true, hits: false, ..hit("miss, key of 8 bytes", 8) },
    Shape { is_compared: true, keys: 16, ..hit("16 keys of 8 bytes", 8) },
    hit("key of 20 bytes", 20),
    hit("key of 64 bytes", 64),
    hit("key of 65 bytes", 65),
    hit("key of 128 bytes", 128),
    hit("key of 129 bytes", 129),
    hit("key of 240 bytes", 240),
    hit("key of 250 bytes", 250),
];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    let case = format!("{CASE}/program");
    if !options.common.wants(&case) {
        return Ok(());
    }
    let mut image = Image::new()?;
    for shape in SHAPES {
        eprint!("\r{case}, {}                ", shape.name);
        one(&format!("{case}/{}", shape.name), shape, options, bench, &mut image, report)?;
    }
    eprintln!();
    Ok(())
}

fn one(
    case: &str,
    shape: Shape,
    options: &Options,
    bench: &Bench,
    image: &mut Image,
    report: &mut Measurement,
) -> Result<()> {
    let frames = image.frames(shape);
    let bare = image.load(&compiled::again::OBJECT, &frames, false)?;
    let mut contenders = vec![("", image.load(&compiled::again::OBJECT, &frames, true)?)];
    if shape.is_compared {
        contenders.push((", under a lock", image.load(&compiled::locked::OBJECT, &frames, true)?));
    }
    let has_two = shape.is_compared && bench.cpus[0] != bench.cpus[1];
    let times = if options.common.quick { 5_000 } else { 20_000 } / shape.keys as u32;
    let mut measured = vec![[const { Vec::new() }; 2]; contenders.len()];
    for _ in 0..options.common.rounds() * 3 {
        rest();
        for (at, at_once) in [false, true].into_iter().enumerate().take(1 + usize::from(has_two)) {
            let time =
                |loaded: &Loaded, wanted| time(loaded, &frames[0], (&bench.cpus, at_once), times, wanted);
            let around = time(&bare, None)?;
            for ((_, contender), measured) in contenders.iter().zip(&mut measured) {
                let ns = time(contender, Some(VERDICT_SENT))?;
                measured[at].push((ns - around) / shape.keys as f64);
            }
        }
    }
    for ((name, _), measured) in contenders.iter().zip(&measured) {
        for (ns, cores) in measured.iter().zip(["one core", "each of two cores"]) {
            if !ns.is_empty() {
                report.value(&format!("{case}{name}"), cores, "ns/GET", ns);
            }
        }
    }
    Ok(())
}

/// Nanoseconds of a run, repeated on these CPUs one after the other, or at once: their mean.
fn time(
    loaded: &Loaded,
    frame: &[u8],
    (cpus, at_once): (&[usize], bool),
    times: u32,
    wanted: Option<u32>,
) -> Result<f64> {
    let barrier = Barrier::new(if at_once { cpus.len() } else { 1 });
    let run = |cpu: usize| -> std::result::Result<f64, String> {
        system::pin(cpu).map_err(|error| error.to_string())?;
        barrier.wait();
        let (ns, verdict) = loaded.program.repeat(frame, times).map_err(|error| error.to_string())?;
        match wanted.is_none_or(|wanted| wanted == verdict) {
            true => Ok(f64::from(ns)),
            false => Err(format!("the program does not answer: verdict {verdict}")),
        }
    };
    let mut sum_ns = 0.0;
    for cpus in cpus.chunks(if at_once { cpus.len() } else { 1 }) {
        sum_ns += std::thread::scope(|scope| {
            let runs: Vec<_> = cpus.iter().map(|cpu| scope.spawn(|| run(*cpu))).collect();
            let ended = runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err("a panic".to_owned())));
            ended.sum::<std::result::Result<f64, _>>()
        })?;
    }
    Ok(sum_ns / cpus.len() as f64)
}

/// A cache in memory that programs read.
struct Image {
    maps: ImageMaps,
    cache: Arc<Cache>,
    way: Way,
}

/// A program with its list of frames.
struct Loaded {
    program: TestProgram,
    _list: Map,
    _lock: Map,
}

impl Image {
    fn new() -> Result<Self> {
        let config =
            Config { memory_bytes: MEMORY_BYTES, partition_bytes_max: IMAGE_BYTES_MAX, ..Config::default() };
        let layout = Layout::of(&config)?;
        let maps = ImageMaps::create(layout.partitions, layout.partition_bytes)?;
        let descriptors = maps.descriptors().to_vec();
        let cache = Cache::new(&Config { maps: Some(Maps { descriptors, kept: false }), ..config })?;
        Ok(Self { maps, cache: Arc::new(cache), way: namespace::way(1) })
    }

    /// Stores the items of a kind of request, and makes the frames that ask for them.
    fn frames(&mut self, shape: Shape) -> Vec<Vec<u8>> {
        let key = |number: usize, is_stored: bool| {
            let letter = if is_stored { 'k' } else { 'n' };
            format!("{letter}{number:0width$}", width = shape.key_bytes - 1)
        };
        let mut worker = self.cache.worker(0);
        let mut maker = FrameMaker::new(&self.way);
        (0..FRAMES_MAX)
            .map(|frame| {
                let mut line = b"\x12\x34\0\0\0\x01\0\0get".to_vec();
                for number in 0..shape.keys {
                    let number = frame * shape.keys + number;
                    if let Some(worker) = &mut worker {
                        in_process::store(
                            &self.cache,
                            worker,
                            key(number, true).as_bytes(),
                            &[7; VALUE_BYTES],
                        );
                    }
                    line.extend(format!(" {}", key(number, shape.hits)).into_bytes());
                }
                line.extend(b"\r\n");
                maker.frame(&line)
            })
            .collect()
    }

    fn load(&self, object: &Object, frames: &[Vec<u8>], is_answered: bool) -> Result<Loaded> {
        let bytes = HEAD_BYTES + FRAMES_MAX * FRAME_BYTES_MAX;
        let list = Map::create(&MapOptions::new((MapType::Array, "list"), 4, bytes, 1))?;
        let mut content = vec![0; bytes];
        content[..8].copy_from_slice(&(frames[0].len() as u64).to_le_bytes());
        content[8..16].copy_from_slice(&u64::from(is_answered).to_le_bytes());
        for (frame, place) in frames.iter().zip(content[HEAD_BYTES..].chunks_exact_mut(FRAME_BYTES_MAX)) {
            place[..frame.len()].copy_from_slice(frame);
        }
        list.set(&[0; 4], &content)?;
        let lock = Map::create(&MapOptions::new((MapType::Array, "lock"), 4, 64, 1))?;
        let options = GetOptions {
            geometry: self.cache.geometry(),
            clock_offset_ms: 0,
            memcached_port: Some(self.way.server.1.port()),
            native: None,
            addresses: Vec::new(),
            networks: vec![Network { address: self.way.client.1.ip(), bits: 32 }],
            spread_cpus: Vec::new(),
        };
        let bound = |name: &str| match name {
            "list" => Bound::Value(&list),
            _ => Bound::Value(&lock),
        };
        let program =
            TestProgram::load_other((object, &bound), &options, &[self.way.server.1.ip()], &self.maps);
        Ok(Loaded { program: program?, _list: list, _lock: lock })
    }
}
