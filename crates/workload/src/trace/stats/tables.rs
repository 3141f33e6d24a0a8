//! The figures as tables: of numbers for programs, written as CSV, and as text for people.

use super::causes::Read;
use super::figures::{Figures, HOURS};
use super::gather::Gathered;
use super::groups::ALL;
use super::sizes::Sizes;
use super::times::{Bins, Burst, Bursts, Hits, Window, Windows};
use crate::figure;
use crate::trace::Operation;
use crate::trace::simulate::Policy;

/// A table by its name: `NAME.csv`.
pub(super) struct Table {
    pub name: &'static str,
    pub columns: &'static str,
    pub rows: Vec<String>,
}

/// All tables, of all keys and of so many prefixes.
pub(super) fn all(gathered: &Gathered, prefixes: usize) -> Vec<Table> {
    let mut tables = [
        ("operations", "group,operation,requests,share"),
        ("sizes", "group,what,bytes,count_share,bytes_share"),
        ("rate", "group,start_s,requests_per_s"),
        ("hours", "group,hour_utc,requests_share,requests_per_s"),
        ("weekdays", "group,day,requests_share,requests_per_s"),
        ("popularity", "group,keys_share,requests_share"),
        ("windows", "group,window_s,start_s,unique_keys,working_set_bytes,read_keys,read_once_keys"),
        ("reuse", "group,hour,share,cumulative_share"),
        ("misses", "group,policy,cause,reads,share_of_misses"),
        ("hits", "group,start_s,requests_per_s,told_hit_ratio,simulated_hit_ratio"),
        (
            "bursts",
            "start_s,seconds,requests,peak,mean,hit_ratio_before,hit_ratio,keys_per_request_before,\
             keys_per_request",
        ),
    ]
    .map(|(name, columns)| Table { name, columns, rows: Vec::new() });
    let covered = &gathered.covered();
    for (number, name, figures) in gathered.groups.shown(prefixes) {
        let group = figure::csv_field(&name);
        let [operations, sizes, rate, hours, weekdays, popularity, windows, reuse, misses, hits, bursts] =
            &mut tables;
        push_operations(&mut operations.rows, &group, figures);
        push_sizes(&mut sizes.rows, &group, "key", &figures.key_bytes);
        push_sizes(&mut sizes.rows, &group, "value", &figures.value_bytes);
        push_sizes(&mut sizes.rows, &group, "set-key", &figures.set_key_bytes);
        push_sizes(&mut sizes.rows, &group, "set-value", &figures.set_value_bytes);
        push_rate(&mut rate.rows, &group, figures, gathered.seconds());
        if gathered.is_dated {
            for (hour, load) in by_hour(figures, covered).iter().enumerate() {
                hours.rows.push(format!("{group},{hour},{load}"));
            }
            for (day, load) in DAYS.iter().zip(by_day(figures, covered)) {
                weekdays.rows.push(format!("{group},{day},{load}"));
            }
        }
        for (keys, requests) in &gathered.popularity(number).points {
            popularity.rows.push(format!("{group},{keys:.6},{requests:.6}"));
        }
        for set in [&figures.minutes, &figures.hours, &figures.days] {
            let width_s = set.width_ms / 1000;
            windows.rows.extend(set.listed.iter().map(|window| {
                let start_s = window.number * width_s;
                let Window { keys, bytes, read_keys, read_once, .. } = window;
                format!("{group},{width_s},{start_s},{keys:.0},{bytes:.0},{read_keys:.0},{read_once:.0}")
            }));
        }
        push_reuse(&mut reuse.rows, &group, figures);
        push_misses(&mut misses.rows, &group, figures, gathered.policy);
        push_hits(&mut hits.rows, &group, figures, gathered.seconds());
        if number == ALL {
            bursts
                .rows
                .extend(gathered.bursts.listed().iter().map(|burst| burst_row(burst, &gathered.bursts)));
        }
    }
    let mut tables = Vec::from(tables);
    tables.retain(|table| !table.rows.is_empty());
    tables
}

pub(super) const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Requests of an hour of the day, or of a weekday.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    pub share: f64,
    /// Rate over the time that the trace was in such hours; none if it never was.
    pub per_s: Option<f64>,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { share, per_s } = self;
        let per_s = per_s.map_or_else(String::new, |per_s| format!("{per_s:.3}"));
        write!(f, "{share:.6},{per_s}")
    }
}

/// Requests by the hour of the day; the trace was so many milliseconds in each hour of the week.
pub(super) fn by_hour(figures: &Figures, covered: &[u64; HOURS]) -> [Load; 24] {
    std::array::from_fn(|hour| load(figures, covered, |of_week| of_week % 24 == hour))
}

/// Requests by the day of the week.
pub(super) fn by_day(figures: &Figures, covered: &[u64; HOURS]) -> [Load; 7] {
    std::array::from_fn(|day| load(figures, covered, |of_week| of_week / 24 == day))
}

fn load(figures: &Figures, covered: &[u64; HOURS], is_in: impl Fn(usize) -> bool) -> Load {
    let hours = || (0..HOURS).filter(|hour| is_in(*hour));
    let requests = hours().map(|hour| figures.week[hour]).sum::<u64>() as f64;
    let seconds = hours().map(|hour| covered[hour] as f64 / 1000.0).sum::<f64>();
    Load {
        share: requests / figures.requests.max(1) as f64,
        per_s: (seconds > 0.0).then(|| requests / seconds),
    }
}

fn push_operations(rows: &mut Vec<String>, group: &str, figures: &Figures) {
    for (operation, requests) in Operation::ALL.into_iter().zip(figures.operations) {
        if requests > 0 {
            let share = requests as f64 / figures.requests as f64;
            rows.push(format!("{group},{},{requests},{share:.6}", operation.name()));
        }
    }
}

fn push_sizes(rows: &mut Vec<String>, group: &str, what: &str, sizes: &Sizes) {
    rows.extend(sizes.cumulative().into_iter().map(|up_to| {
        let (count, bytes) = (up_to.count_share, up_to.bytes_share);
        format!("{group},{what},{},{count:.6},{bytes:.6}", up_to.bytes)
    }));
}

fn push_rate(rows: &mut Vec<String>, group: &str, figures: &Figures, seconds: f64) {
    rows.extend(
        rates(figures, seconds)
            .into_iter()
            .map(|(start_s, per_s)| format!("{group},{start_s:.0},{per_s:.3}")),
    );
}

/// Returns the start of each bin, in seconds, and its requests per second.
pub(super) fn rates(figures: &Figures, seconds: f64) -> Vec<(f64, f64)> {
    let width_s = figures.rate.width_ms as f64 / 1000.0;
    let of = |(bin, count): (usize, &u64)| {
        let start_s = bin as f64 * width_s;
        // The last one may be cut off; times are whole seconds in most traces.
        let width_s = width_s.min((seconds.floor() + 1.0 - start_s).max(1.0));
        (start_s, *count as f64 / width_s)
    };
    figures.rate.counts.iter().enumerate().map(of).collect()
}

fn push_reuse(rows: &mut Vec<String>, group: &str, figures: &Figures) {
    let all: f64 = figures.reuse.iter().sum();
    if all == 0.0 {
        return;
    }
    let last = figures.reuse.iter().rposition(|gaps| *gaps > 0.0).unwrap_or(0);
    for hour in 0..=last.min(HOURS - 1) {
        let (share, cumulative) = (figures.reuse[hour] / all, figures.reused_within(hour + 1));
        rows.push(format!("{group},{hour},{share:.6},{cumulative:.6}"));
    }
}

/// A row for each part of the time in which the end of a read is known.
fn push_hits(rows: &mut Vec<String>, group: &str, figures: &Figures, seconds: f64) {
    let text = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.6}"));
    for ((start_s, per_s), ratios) in rates(figures, seconds).into_iter().zip(hit_ratios(figures)) {
        if ratios.iter().any(Option::is_some) {
            let [told, simulated] = ratios.map(text);
            rows.push(format!("{group},{start_s:.0},{per_s:.3},{told},{simulated}"));
        }
    }
}

/// Returns the hit ratios of each bin of [`rates`]: what the trace tells, and those of the simulated cache.
pub(super) fn hit_ratios(figures: &Figures) -> Vec<[Option<f64>; 2]> {
    // The last bins may have no read, and the widths differ if there is none late in the trace.
    let Bins { width_ms, counts } = &figures.hits;
    let joined = (figures.rate.width_ms / width_ms).max(1) as usize;
    let sum = |bins: &[Hits]| {
        let mut sum = Hits::default();
        bins.iter().for_each(|hits| sum += *hits);
        sum.ratios()
    };
    let mut ratios: Vec<_> = counts.chunks(joined).map(sum).collect();
    ratios.resize(figures.rate.counts.len(), [None, None]);
    ratios
}

fn burst_row(burst: &Burst, bursts: &Bursts) -> String {
    let seconds = bursts.width_ms / 1000;
    let text = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.6}"));
    format!(
        "{},{},{},{:.3},{:.3},{},{},{:.6},{:.6}",
        burst.first * seconds,
        burst.intervals * seconds,
        burst.all.requests,
        burst.peak,
        burst.mean(),
        text(burst.before.hit_ratio()),
        text(burst.all.hit_ratio()),
        burst.before.keys_per_request(),
        burst.all.keys_per_request(),
    )
}

fn push_misses(rows: &mut Vec<String>, group: &str, figures: &Figures, policy: Option<Policy>) {
    let (Some((_, shares)), Some(policy)) = (figures.misses(), policy) else {
        return;
    };
    for (read, share) in Read::ALL[1..].iter().zip(shares) {
        let reads = figures.reads[*read as usize];
        rows.push(format!("{group},{policy},{},{reads:.0},{share:.6}", read.name()));
    }
}

/// The figures for people: a column for all keys and for each prefix.
pub(super) fn text(gathered: &Gathered, prefixes: usize) -> String {
    let shown = gathered.groups.shown(prefixes);
    let names = shown.iter().map(|(_, name, _)| name.chars().take(18).collect());
    let mut rows = Rows { rows: vec![std::iter::once(String::new()).chain(names).collect()], shown };
    rows.add("requests", |_, figures| grouped(figures.requests as f64));
    rows.add("objects", |number, _| grouped(gathered.objects(number).0));
    rows.add("  bytes of keys and values", |number, _| grouped(gathered.objects(number).1));
    for operation in Operation::ALL {
        rows.add(&format!("{} %", operation.name()), |_, figures| {
            let share = figures.operations[operation as usize] as f64 / figures.requests as f64;
            percent((share > 0.0).then_some(share))
        });
    }
    rows.add("hits, of reads, %", |_, figures| percent(figures.hit_ratio()));
    rows.add_sizes("key", |figures| &figures.key_bytes);
    rows.add_sizes("value", |figures| &figures.value_bytes);
    rows.add_sizes("SET key", |figures| &figures.set_key_bytes);
    rows.add_sizes("SET value", |figures| &figures.set_value_bytes);
    rows.add("keys asked for once, %", |number, _| percent(Some(gathered.popularity(number).once_share)));
    rows.add("hottest 1 % of keys, % of requests", |number, _| {
        percent(Some(gathered.popularity(number).hottest_percent_share))
    });
    rows.add("Zipf exponent (r squared)", |number, _| {
        let zipf = gathered.popularity(number).zipf;
        zipf.map_or_else(String::new, |zipf| format!("{:.2} ({:.3})", zipf.exponent, zipf.r_squared))
    });
    for hours in [1, 2, 6] {
        rows.add(&format!("reused within {hours} h, % of repeats"), |_, figures| {
            let has_repeats = figures.reuse.iter().sum::<f64>() > 0.0;
            percent(has_repeats.then(|| figures.reused_within(hours)))
        });
    }
    rows.add_windows("minute", |figures| &figures.minutes);
    rows.add_windows("hour", |figures| &figures.hours);
    rows.add_windows("day", |figures| &figures.days);
    rows.add("keys read in an hour, once in it, %", |_, figures| percent(figures.hours.read_once()));
    rows.add("keys never read twice in an hour, %", |number, _| {
        percent(gathered.never_twice_in_an_hour(number))
    });
    rows.add_bursts(&gathered.bursts);
    let policy = gathered.policy.map_or_else(String::new, |policy| policy.to_string());
    rows.add(&format!("misses at --bytes ({policy}), of reads, %"), |_, figures| {
        percent(figures.misses().map(|(misses, _)| misses))
    });
    for (at, read) in Read::ALL[1..].iter().enumerate() {
        rows.add(&format!("  {}, of these, %", read.name()), |_, figures| {
            percent(figures.misses().map(|(_, shares)| shares[at]))
        });
    }
    figure::aligned(&rows.rows, |at| at > 0)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.2}", share * 100.0))
}

/// Rows with a cell for each group.
struct Rows<'a> {
    shown: Vec<(u16, String, &'a Figures)>,
    rows: Vec<Vec<String>>,
}

impl Rows<'_> {
    /// Adds a row, unless all of its cells are empty.
    fn add(&mut self, name: &str, of: impl Fn(u16, &Figures) -> String) {
        let cells = self.shown.iter().map(|(number, _, figures)| of(*number, figures));
        let cells: Vec<_> = std::iter::once(name.to_owned()).chain(cells).collect();
        if cells[1..].iter().any(|cell| !cell.is_empty()) {
            self.rows.push(cells);
        }
    }

    fn add_sizes(&mut self, name: &str, of: fn(&Figures) -> &Sizes) {
        let quantiles = |figures: &Figures, by_bytes: bool| {
            let sizes = of(figures);
            if sizes.count() == 0 {
                return String::new();
            }
            let [half, most, nearly] = [0.5, 0.9, 0.99].map(|part| sizes.quantile(part, by_bytes));
            format!("{half} {most} {nearly}")
        };
        self.add(&format!("{name} bytes, p50 p90 p99"), |_, figures| quantiles(figures, false));
        self.add("  weighted by bytes", |_, figures| quantiles(figures, true));
        self.add("  mean", |_, figures| {
            if of(figures).count() == 0 { String::new() } else { format!("{:.1}", of(figures).mean()) }
        });
    }

    /// Adds rows about all keys.
    fn add_bursts(&mut self, bursts: &Bursts) {
        let seconds = bursts.width_ms / 1000;
        let of_all = |number: u16, text: String| if number == ALL { text } else { String::new() };
        self.add(&format!("bursts of {seconds} s and more"), |number, _| {
            of_all(number, bursts.count.to_string())
        });
        let Some(highest) = bursts.listed().iter().map(|burst| burst.peak).max_by(f64::total_cmp) else {
            return;
        };
        self.add("  highest rate, times that before", |number, _| of_all(number, format!("{highest:.2}")));
        let changes = || bursts.listed().iter().filter_map(Burst::change);
        let of_sign = |sign: f64| {
            let changes: Vec<f64> = changes().filter(|change| change * sign > 0.0).collect();
            let mean = changes.iter().sum::<f64>() / changes.len().max(1) as f64;
            format!("{} {:+.1}", changes.len(), mean * 100.0)
        };
        if changes().next().is_some() {
            self.add("  that raise the hit ratio, points", |number, _| of_all(number, of_sign(1.0)));
            self.add("  that lower it, points", |number, _| of_all(number, of_sign(-1.0)));
        }
    }

    fn add_windows(&mut self, name: &str, of: fn(&Figures) -> &Windows) {
        self.add(&format!("unique keys per {name}"), |_, figures| grouped(of(figures).mean().0));
        self.add("  their bytes (working set)", |_, figures| grouped(of(figures).mean().1));
    }
}

/// A whole number with commas between thousands.
pub(super) fn grouped(value: f64) -> String {
    figure::grouped(value, ',')
}
