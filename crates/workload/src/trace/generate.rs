//! `micanite trace generate`: the requests of a published workload, as a trace.

use std::io::{self, BufWriter, Write};
use std::str::FromStr;

use crate::{
    DailyStream, ITEMS_MAX, Items, Mix, Next, PoolOperation, PoolRequest, PoolStream, Popularity, Requests,
    Workload,
};
use clap::Args;

use crate::trace::open::Reader;
use crate::trace::{Failure, Key, Operation, Outcome, Request};

const BUFFER_BYTES: usize = 1 << 18;
const HOUR_MS: f64 = 3_600_000.0;

/// Prints the requests of a published workload in Twitter's format, always the same ones.
#[derive(Args, Debug)]
pub struct GenerateOptions {
    /// The workload, as micanite load has them: ycsb-b, mica-small, fb-etc, innercache-zipf-90 ...
    #[arg(value_name = "WORKLOAD")]
    workload: Workload,
    /// How many requests
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    requests: u64,
    /// How many items; of a pool the resident ones [default: that of the workload, or 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=ITEMS_MAX))]
    items: Option<u64>,
    /// Another one makes other requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Requests per second; a pool has its own [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Begin with a SET of every item, before the first request
    #[arg(long)]
    fill: bool,
    /// A pool: requests follow the day and the week, come in bursts, and ask for missed keys again soon
    #[arg(long)]
    daily: bool,
    /// Go on with as many requests of another workload, whose items have other sizes
    #[arg(long, value_name = "WORKLOAD[,ITEMS]")]
    then: Vec<Life>,
}

/// One workload of a trace, and how many items it has if that is said.
#[derive(Clone, Copy, Debug)]
struct Life {
    workload: Workload,
    items: Option<u64>,
}

impl FromStr for Life {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (workload, items) =
            text.split_once(',').map_or((text, None), |(name, items)| (name, Some(items)));
        let workload = workload.parse()?;
        let number = |text: &str| text.parse().ok().filter(|items| (1..=ITEMS_MAX).contains(items));
        match items.map(|text| (text, number(text))) {
            Some((text, None)) => Err(format!("{text} is no number of items from 1 to {ITEMS_MAX}")),
            items => Ok(Self { workload, items: items.and_then(|(_, items)| items) }),
        }
    }
}

/// Requests per second, if nobody says.
const RATE: u32 = 10_000;
/// Items, if neither the workload nor anybody else says.
const ITEMS: u64 = 1_000_000;

/// Prints the requests of a published workload as a trace.
///
/// # Errors
/// When the options contradict each other, or nothing can be printed.
pub fn generate(options: &GenerateOptions) -> Result<(), Failure> {
    let mut lives = vec![Life { workload: options.workload, items: options.items }];
    lives.extend(&options.then);
    // Errors of the last workload come before the first request of the first.
    let mut generated = lives.iter().map(|life| checked(options, *life)).collect::<Result<Vec<_>, _>>()?;
    let mut to = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let mut all = || -> Result<io::Result<()>, Failure> {
        let mut time_ms = 0.0;
        for life in &mut generated {
            let begin_ms = time_ms as u64;
            while let Some(request) = life.next()? {
                let request = Request { time_ms: begin_ms + request.time_ms, ..request };
                if let Err(error) = print(&mut to, &request) {
                    return Ok(Err(error));
                }
            }
            time_ms += life.time_ms;
        }
        Ok(to.flush())
    };
    match all()? {
        // Nobody reads any more: nothing is lost.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(|error| Failure::new(format!("cannot print: {error}"))),
    }
}

fn checked(options: &GenerateOptions, life: Life) -> Result<Generated, Failure> {
    let workload = life.workload;
    if workload.pool().is_some() && options.rate.is_some() {
        return Err(Failure::usage(format!("--rate is part of {workload}: leave it out")));
    }
    if workload.pool().is_none() && options.daily {
        return Err(Failure::usage(format!("--daily is for the pools (fb-etc ...), and {workload} is none")));
    }
    Generated::new(options, life)
}

fn print(to: &mut impl Write, request: &Request<'_>) -> io::Result<()> {
    if let Key::Text(key) = request.key {
        write!(to, "{},", request.time_ms / 1000)?;
        to.write_all(key)?;
    }
    let (key_bytes, operation) = (request.key_bytes, request.operation.name());
    let value_bytes = request.value_bytes.unwrap_or(0);
    writeln!(to, ",{key_bytes},{value_bytes},1,{operation},0")
}

pub(crate) struct Generated {
    items: Items,
    law: Law,
    filling: Filling,
    left: u64,
    /// Milliseconds, and what they grow by with each request (of a pool, with each GET).
    time_ms: f64,
    step_ms: f64,
    key: Vec<u8>,
}

enum Law {
    Pool(PoolStream),
    Daily(Box<DailyStream>),
    Choice(Requests),
}

/// Items that are stored before everything else.
struct Filling {
    workload: Workload,
    items: u64,
    next: u64,
    end: u64,
}

impl Filling {
    fn next(&mut self) -> Option<u64> {
        let at = self.next;
        if at == self.end {
            return None;
        }
        self.next += 1;
        Some(match self.workload.pool() {
            Some(pool) => pool.prefill_item(self.items, at).number,
            None => at,
        })
    }
}

impl Generated {
    fn new(options: &GenerateOptions, Life { workload, items }: Life) -> Result<Self, Failure> {
        let preset = workload.preset();
        let items = items.unwrap_or_else(|| preset.map_or(ITEMS, |preset| preset.items));
        let (of_items, most) = (workload.items(), workload.items().items_max());
        if items > most {
            return Err(Failure::usage(format!("{workload} has {most} keys at most")));
        }
        let step_ms = match workload.pool() {
            Some(pool) => HOUR_MS / pool.gets_per_hour(items),
            None => 1000.0 / f64::from(options.rate.unwrap_or(RATE)),
        };
        let law = match workload.pool() {
            Some(pool) if options.daily => Law::Daily(Box::new(DailyStream::new(pool, items, options.seed))),
            Some(pool) => Law::Pool(pool.stream(items, options.seed)),
            None => {
                let mix = Mix {
                    gets: preset.map_or(1.0, |preset| preset.get_percent / 100.0),
                    gets_per_request: 1,
                };
                let popularity = preset.map_or(Popularity::Uniform, |preset| preset.popularity);
                let reads_first = preset.is_some_and(|preset| preset.reads_before_writing);
                let requests = Requests::new(popularity, items, mix, options.seed, (0, 1));
                Law::Choice(requests.reading_before_writing(reads_first))
            }
        };
        let stored = workload.pool().map_or(items, |pool| pool.prefill_items(items));
        Ok(Self {
            items: of_items,
            law,
            filling: Filling { workload, items, next: 0, end: if options.fill { stored } else { 0 } },
            left: options.requests,
            time_ms: 0.0,
            step_ms,
            key: Vec::new(),
        })
    }

    /// Generates requests of a pool, beginning with a SET of every item.
    #[cfg(test)]
    pub fn of_pool(pool: crate::Pool, items: u64, requests: u64, daily: bool) -> Self {
        let options = GenerateOptions {
            workload: Workload::Pool(pool),
            requests,
            items: Some(items),
            seed: 1,
            rate: None,
            fill: true,
            daily,
            then: Vec::new(),
        };
        Self::new(&options, Life { workload: options.workload, items: options.items }).unwrap()
    }

    /// Generates the next read, and leaves out what is between.
    #[cfg(test)]
    pub fn next_read(&mut self) -> Result<Option<Request<'_>>, Failure> {
        self.filling.next = self.filling.end;
        while self.left > 0 {
            self.left -= 1;
            let (operation, item) = self.ask();
            if operation.reads() {
                return Ok(Some(self.request(operation, item)));
            }
        }
        Ok(None)
    }

    fn request(&mut self, operation: Operation, item: u64) -> Request<'_> {
        self.key.clear();
        self.items.push_key(item, &mut self.key);
        let value_bytes = self.items.value_bytes(item) as u32;
        Request {
            time_ms: self.time_ms as u64,
            key: Key::Text(&self.key),
            operation,
            key_bytes: self.key.len() as u32,
            value_bytes: (operation != Operation::Delete).then_some(value_bytes),
            expiry_s: (operation == Operation::Set).then_some(0),
            outcome: Outcome::Unknown,
        }
    }

    /// Draws the next operation and its item.
    fn ask(&mut self) -> (Operation, u64) {
        match &mut self.law {
            Law::Pool(stream) => {
                let asked = of_pool(stream.next());
                if asked.0 == Operation::Get {
                    self.time_ms += self.step_ms;
                }
                asked
            }
            Law::Daily(stream) => {
                let asked = of_pool(stream.next());
                self.time_ms = stream.time_ms();
                asked
            }
            Law::Choice(requests) => {
                let mut items = [0];
                self.time_ms += self.step_ms;
                match requests.next(&mut items) {
                    Next::Read(_) => (Operation::Get, items[0]),
                    Next::Write(item, _) => (Operation::Set, item),
                    Next::Delete(item) => (Operation::Delete, item),
                }
            }
        }
    }
}

/// Operation and item of a pool's request.
fn of_pool(request: Option<PoolRequest>) -> (Operation, u64) {
    let Some(request) = request else {
        unreachable!("a stream has no end");
    };
    let operation = match request.operation {
        PoolOperation::Get => Operation::Get,
        PoolOperation::Update => Operation::Set,
        PoolOperation::Delete => Operation::Delete,
    };
    (operation, request.item.number)
}

impl Reader for Generated {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        let (operation, item) = if let Some(item) = self.filling.next() {
            (Operation::Set, item)
        } else if self.left > 0 {
            self.left -= 1;
            self.ask()
        } else {
            return Ok(None);
        };
        Ok(Some(self.request(operation, item)))
    }
}
