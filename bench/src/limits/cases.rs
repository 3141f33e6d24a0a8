//! The cases: the limits themselves, then each question on tables of its own.

use super::Options;
use super::inline::{InlineAccess, InlineTable};
use super::item::Placement;
use super::lines::{Access as LineAccess, Lines};
use super::pipeline::Schedule::{self, Batch, Rolling, Staggered};
use super::rounds::{Drawn, Variant, beside_limit, operations};
use super::table::{Access, Table};
use super::tag_match::{ArrayMinimum, BitMask, EarlyExit, Gathered, Minimum, TagMatch};
use super::two_lines::TwoLines;
use crate::Result;
use crate::harness::huge_pages::Resident;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

/// Bytes of an item of 8 bytes of key and 8 of value.
const ITEM_BYTES: usize = 24;
/// Fill of the tables' buckets, except where that is the question.
const LOAD: f64 = 0.8;
/// The schedule in which everything but schedules is compared.
const USUAL: Schedule = Staggered(16);

const SCHEDULES: [Schedule; 14] = [
    Batch(8),
    Batch(16),
    Batch(32),
    Batch(64),
    Staggered(8),
    Staggered(16),
    Staggered(32),
    Staggered(64),
    Rolling(8),
    Rolling(16),
    Rolling(24),
    Rolling(32),
    Rolling(48),
    Rolling(64),
];
const SCHEDULES_FEW: [Schedule; 4] = [Batch(32), Staggered(16), Staggered(32), Rolling(32)];

pub(super) fn run(items: u64, options: &Options, report: &mut Measurement) -> Result<()> {
    let before = Resident::now()?;
    let limit = TwoLines::new(items as usize, ITEM_BYTES)?;
    report.note(format!(
        "{}: {:.0} % of the limit's memory on huge pages",
        size_name(items),
        Resident::now()?.huge_percent_since(before)
    ));
    let mut cases = Cases { items, size: size_name(items), options, limit, report };
    cases.one_line()?;
    cases.two_lines()?;
    cases.schedules()?;
    cases.tag_matches()?;
    cases.bucket_sizes()?;
    cases.loads()?;
    cases.placements()?;
    cases.inline()
}

struct Cases<'a> {
    items: u64,
    size: String,
    options: &'a Options,
    limit: TwoLines,
    report: &'a mut Measurement,
}

impl Cases<'_> {
    /// The full name of a case, if it is wanted.
    fn wanted(&self, case: &str) -> Option<String> {
        let name = format!("{} {case}", self.size);
        self.options.common.wants(&name).then_some(name)
    }

    fn measure(&mut self, case: &str, variants: Vec<Variant>) -> Result<()> {
        beside_limit(case, variants, &mut self.limit, self.options, self.report)
    }

    fn drawn(&self, popularity: Popularity) -> Drawn {
        Drawn::new(popularity, self.items, self.options)
    }

    fn table<const W: usize, const E: usize>(&self, load: f64, placement: Placement) -> Result<Table<W, E>> {
        eprintln!("filling {} items, {E} entries to a bucket", self.size);
        Table::filled(self.items as usize, load, placement)
    }

    fn one_line(&mut self) -> Result<()> {
        let Some(case) = self.wanted("limit, one line") else {
            return Ok(());
        };
        let lines = Lines::new(self.items as usize * (ITEM_BYTES + 64 * 10 / 56))?;
        let lines = std::cell::RefCell::new(lines);
        let count = operations(self.options);
        let dependent = || {
            let took = lines.borrow_mut().run_dependent(count / 8)?;
            Ok((count / 8) as f64 / took.as_secs_f64() / 1e6)
        };
        let mut variants =
            vec![Variant { name: "each line named by the one before".to_owned(), run: Box::new(dependent) }];
        for access in LineAccess::ALL {
            for distance in [8, 16, 32] {
                let lines = &lines;
                variants.push(Variant {
                    name: format!("{}, {} ahead", access.name(), 2 * distance),
                    run: Box::new(move || {
                        let took = lines.borrow_mut().run(access, distance, count)?;
                        Ok(count as f64 / took.as_secs_f64() / 1e6)
                    }),
                });
            }
        }
        self.measure(&case, variants)
    }

    fn two_lines(&mut self) -> Result<()> {
        let Some(case) = self.wanted("limit, two dependent lines") else {
            return Ok(());
        };
        let lines = TwoLines::new(self.items as usize, ITEM_BYTES)?;
        let lines = std::cell::RefCell::new(lines);
        let count = operations(self.options);
        let variants = SCHEDULES.map(|schedule| {
            let lines = &lines;
            Variant {
                name: schedule.name(),
                run: Box::new(move || {
                    let took = lines.borrow_mut().run_as(schedule, count)?;
                    Ok(count as f64 / took.as_secs_f64() / 1e6)
                }),
            }
        });
        self.measure(&case, variants.into())
    }

    /// Batches against rolling, prefetch on and off, uniform and skewed, read and written.
    fn schedules(&mut self) -> Result<()> {
        let names = ["uniform GET", "zipf GET", "uniform SET in place"];
        let wanted = names.map(|name| self.wanted(&format!("schedule, {name}")));
        if wanted.iter().all(Option::is_none) {
            return Ok(());
        }
        let table = self.table::<8, 7>(LOAD, Placement::Packed)?;
        self.report.note(format!(
            "{}: buckets of 7 entries full to {LOAD}: {:.1} % of items in spare buckets, {:.1} bytes an item",
            self.size,
            table.chained_percent(),
            table.bytes_per_item()
        ));
        let [uniform, zipf, set] = wanted;
        if let Some(case) = uniform {
            let drawn = self.drawn(Popularity::Uniform);
            let mut variants = gets::<8, 7, Minimum, 2>("", &table, &drawn, &SCHEDULES);
            variants.extend(gets::<8, 7, Minimum, 0>("prefetch off, ", &table, &drawn, &[USUAL]));
            self.measure(&case, variants)?;
        }
        if let Some(case) = zipf {
            let drawn = self.drawn(Popularity::Zipf);
            let mut variants = gets::<8, 7, Minimum, 2>("", &table, &drawn, &SCHEDULES_FEW);
            variants.extend(gets::<8, 7, Minimum, 0>("prefetch off, ", &table, &drawn, &[USUAL]));
            self.measure(&case, variants)?;
        }
        if let Some(case) = set {
            let drawn = self.drawn(Popularity::Uniform);
            let variants = SCHEDULES_FEW.map(|schedule| {
                let set = Access::<8, 7, Minimum, 2, true>::to(&table);
                Variant::lookups("", &drawn, set, schedule)
            });
            self.measure(&case, variants.into())?;
        }
        Ok(())
    }

    fn tag_matches(&mut self) -> Result<()> {
        let Some(case) = self.wanted("tag match") else {
            return Ok(());
        };
        let table = self.table::<8, 7>(LOAD, Placement::Packed)?;
        let drawn = self.drawn(Popularity::Uniform);
        let mut variants = Vec::new();
        let usual = &[USUAL];
        variants.extend(gets::<8, 7, EarlyExit, 2>("early exit, ", &table, &drawn, usual));
        variants.extend(gets::<8, 7, BitMask, 2>("bit mask, ", &table, &drawn, usual));
        variants.extend(gets::<8, 7, Minimum, 2>("minimum, ", &table, &drawn, usual));
        variants.extend(gets::<8, 7, ArrayMinimum, 2>("minimum of an array, ", &table, &drawn, usual));
        variants.extend(gets::<8, 7, Gathered, 2>("four tags gathered, ", &table, &drawn, usual));
        self.measure(&case, variants)
    }

    fn bucket_sizes(&mut self) -> Result<()> {
        let Some(case) = self.wanted("bucket of 128 bytes") else {
            return Ok(());
        };
        let table = self.table::<16, 15>(LOAD, Placement::Packed)?;
        self.report.note(format!(
            "{}: buckets of 15 entries full to {LOAD}: {:.1} % of items in spare buckets, {:.1} bytes an \
             item",
            self.size,
            table.chained_percent(),
            table.bytes_per_item()
        ));
        let drawn = self.drawn(Popularity::Uniform);
        let few = &SCHEDULES_FEW;
        let mut variants = gets::<16, 15, Minimum, 2>("minimum, ", &table, &drawn, few);
        variants.extend(gets::<16, 15, EarlyExit, 2>("early exit, ", &table, &drawn, few));
        self.measure(&case, variants)
    }

    fn loads(&mut self) -> Result<()> {
        for load in [0.5, 0.65, 0.9] {
            let Some(case) = self.wanted(&format!("load {load}")) else {
                continue;
            };
            let table = self.table::<8, 7>(load, Placement::Packed)?;
            self.report.note(format!(
                "{}: load {load}: {:.1} % of items in spare buckets, {:.1} bytes an item",
                self.size,
                table.chained_percent(),
                table.bytes_per_item()
            ));
            let drawn = self.drawn(Popularity::Uniform);
            let variants = gets::<8, 7, Minimum, 2>("", &table, &drawn, &SCHEDULES_FEW);
            self.measure(&case, variants)?;
        }
        Ok(())
    }

    fn placements(&mut self) -> Result<()> {
        for placement in [Placement::Packed, Placement::WithinLine, Placement::OwnLine] {
            let Some(case) = self.wanted(&format!("items {}", placement.name())) else {
                continue;
            };
            let table = self.table::<8, 7>(LOAD, placement)?;
            let drawn = self.drawn(Popularity::Uniform);
            let usual = &[USUAL];
            let mut variants = gets::<8, 7, Minimum, 1>("one prefetch, ", &table, &drawn, usual);
            variants.extend(gets::<8, 7, Minimum, 2>("two prefetches, ", &table, &drawn, usual));
            self.measure(&case, variants)?;
        }
        Ok(())
    }

    fn inline(&mut self) -> Result<()> {
        for items_per_bucket in [0.9, 2.0, 3.0] {
            self.inline_with::<8, 7, 3>("64", items_per_bucket)?;
        }
        for items_per_bucket in [4.0, 5.5, 7.0, 9.0] {
            self.inline_with::<16, 15, 7>("128", items_per_bucket)?;
        }
        Ok(())
    }

    fn inline_with<const W: usize, const S: usize, const P: usize>(
        &mut self,
        bytes: &str,
        items_per_bucket: f64,
    ) -> Result<()> {
        let name = format!("in bucket of {bytes} bytes, {items_per_bucket} items each");
        let Some(case) = self.wanted(&name) else {
            return Ok(());
        };
        eprintln!("filling {case}");
        let table = InlineTable::<W, S, P>::filled(self.items as usize, items_per_bucket)?;
        self.report.note(format!(
            "{case}: {:.1} bytes an item, {:.1} % of items outside, {:.2} % without room",
            table.bytes_per_item(),
            table.outside_percent(),
            table.lost_percent()
        ));
        let lost = table.lost_percent();
        let uniform = self.drawn(Popularity::Uniform).with_lost(lost);
        let mut variants = Vec::new();
        for schedule in SCHEDULES_FEW {
            let get = InlineAccess::<W, S, P, false>(&table);
            variants.push(Variant::lookups("GET, ", &uniform, get, schedule));
        }
        for schedule in SCHEDULES_FEW {
            let set = InlineAccess::<W, S, P, true>(&table);
            variants.push(Variant::lookups("SET, ", &uniform, set, schedule));
        }
        self.measure(&case, variants)
    }
}

/// GETs of one kind in some schedules.
fn gets<'a, const W: usize, const E: usize, M: TagMatch + 'a, const PREFETCHES: usize>(
    name: &str,
    table: &'a Table<W, E>,
    drawn: &'a Drawn,
    schedules: &[Schedule],
) -> Vec<Variant<'a>> {
    schedules
        .iter()
        .map(|schedule| {
            let get = Access::<W, E, M, PREFETCHES, false>::to(table);
            Variant::lookups(name, drawn, get, *schedule)
        })
        .collect()
}

fn size_name(items: u64) -> String {
    if items.is_multiple_of(1 << 20) { format!("{} Mi", items >> 20) } else { format!("{} Ki", items >> 10) }
}
