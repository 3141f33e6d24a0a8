//! History and events for the next program after a restart in place, as JSON. That program may be another
//! build: it takes the numbers that it knows by their names, and refuses what it cannot read.

use serde::{Deserialize, Serialize};

use super::events::{Event, Events};
use super::history::{History, Ring};
use super::sample::{FIELDS, Sample, names};
use crate::limits::{CONSOLE_EVENT_BYTES_MAX, CONSOLE_EVENTS_MAX, CONSOLE_HANDOVER_BYTES_MAX, CONSOLE_STEPS};

/// Changes with what the rest of the text means.
const VERSION: u32 = 1;
/// Bytes of a number of a sample, with its comma.
const NUMBER_BYTES_MAX: usize = 16;
/// Bytes of the times and the numbers of an event.
const EVENT_ROOM: usize = 256;

/// Everything that is handed over.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Heritage {
    version: u32,
    /// Identity of the numbers of samples and events, which go on.
    pub series: u32,
    names: Vec<String>,
    rings: Vec<Rows>,
    last_event: u64,
    events: Vec<Event>,
}

/// Samples of one step.
#[derive(Debug, Deserialize, Serialize)]
struct Rows {
    step_s: u32,
    /// Number of the last sample.
    last: u64,
    /// Each as its time and its numbers; `None` is not known.
    rows: Vec<(u32, Vec<Option<f32>>)>,
}

impl Heritage {
    pub fn of(series: u32, history: &History, events: &Events) -> Self {
        let known = |value: &f32| Some(*value).filter(|value| value.is_finite());
        let row = |sample: &Sample| (sample.at_s, sample.values.iter().map(known).collect());
        let rows = |ring: &Ring| Rows {
            step_s: ring.step_s,
            last: ring.last(),
            rows: ring.since(0).1.map(row).collect(),
        };
        Self {
            version: VERSION,
            series,
            names: names().map(str::to_owned).collect(),
            rings: history.rings.iter().map(rows).collect(),
            last_event: events.last(),
            events: events.iter().cloned().collect(),
        }
    }

    /// Returns it as text of at most [`CONSOLE_HANDOVER_BYTES_MAX`].
    pub fn text(&self) -> Vec<u8> {
        // Numbers and text always become JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// # Errors
    /// Describes why the text is not understood.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        if text.len() > CONSOLE_HANDOVER_BYTES_MAX {
            return Err(format!("it has more than {CONSOLE_HANDOVER_BYTES_MAX} bytes"));
        }
        let this: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if this.version != VERSION {
            return Err(format!("it has version {}, and version {VERSION} is read", this.version));
        }
        let is_counted = |rows: &Rows| rows.last >= rows.rows.len() as u64;
        if !this.rings.iter().all(is_counted) || this.events.iter().any(|it| it.number > this.last_event) {
            return Err("its numbers do not fit each other".into());
        }
        Ok(this)
    }

    /// Returns the samples of the steps that there are, and the events.
    pub fn into_parts(self) -> (History, Events) {
        let places = names().map(|name| self.names.iter().position(|known| known == name));
        let places: Vec<_> = places.collect();
        let mut history = History::new();
        for rows in self.rings {
            let Some(ring) = history.rings.iter_mut().find(|ring| ring.step_s == rows.step_s) else {
                continue;
            };
            let samples = rows.rows.into_iter().map(|(at_s, numbers)| {
                let number = |place: Option<usize>| numbers.get(place?).copied().flatten();
                let mut values = [f32::NAN; FIELDS];
                let known = values.iter_mut().zip(&places);
                known.for_each(|(value, place)| *value = number(*place).unwrap_or(f32::NAN));
                Sample { at_s, values }
            });
            ring.go_on(rows.last, samples);
        }
        (history, Events::go_on(self.last_event, self.events))
    }
}

const _: () = {
    let (mut step, mut samples) = (0, 0);
    while step < CONSOLE_STEPS.len() {
        samples += CONSOLE_STEPS[step].1;
        step += 1;
    }
    // A text may consist of quotes, which are escaped.
    let events = CONSOLE_EVENTS_MAX * (2 * CONSOLE_EVENT_BYTES_MAX + EVENT_ROOM);
    assert!(samples * (FIELDS + 1) * NUMBER_BYTES_MAX + events + 4096 <= CONSOLE_HANDOVER_BYTES_MAX);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::admin::feed::events::Kind;
    use crate::testing::NOW_S;

    /// Rings and events that are full, each number as long as it gets.
    fn full() -> (History, Events) {
        let mut values = [-1.175_494_3e-38; FIELDS];
        values[1] = f32::NAN;
        let (mut history, mut events) = (History::new(), Events::default());
        for ring in &mut history.rings {
            let most = CONSOLE_STEPS.iter().find(|(step_s, _)| *step_s == ring.step_s).unwrap().1 as u32;
            ring.go_on(u64::MAX / 2, (0..most).map(|at_s| Sample { at_s: NOW_S + at_s, values }));
        }
        for _ in 0..CONSOLE_EVENTS_MAX {
            events.add_refusals(NOW_S, &"\"".repeat(CONSOLE_EVENT_BYTES_MAX), "", u64::MAX / 1000);
            events.add(Kind::Refusal, NOW_S, "\"".repeat(CONSOLE_EVENT_BYTES_MAX));
        }
        (history, events)
    }

    fn rows(history: &History) -> Vec<(u64, u32, Vec<u32>)> {
        let samples = history.rings.iter().flat_map(|ring| {
            let (first, samples) = ring.since(0);
            samples.map(move |sample| (first, sample.at_s, sample.values.map(f32::to_bits).to_vec()))
        });
        samples.collect()
    }

    #[test]
    fn an_hour_and_its_events_outlive_the_program() {
        let (history, events) = full();
        let text = Heritage::of(7, &history, &events).text();
        assert!(text.len() <= CONSOLE_HANDOVER_BYTES_MAX, "{}", text.len());
        let heritage = Heritage::parse(&text).unwrap();
        assert_eq!(heritage.series, 7);
        let (kept, mut kept_events) = heritage.into_parts();
        assert_eq!(rows(&kept), rows(&history));
        assert_eq!(kept.rings.each_ref().map(Ring::last), [u64::MAX / 2; 2]);
        assert_eq!(kept_events.since(0), events.since(0));
        // The next event follows the last one.
        kept_events.add(Kind::Start, NOW_S, "restarted");
        assert_eq!(kept_events.since(events.last()).len(), 1);
    }

    #[test]
    fn numbers_of_another_build_are_found_by_their_names() {
        let text = format!(
            "{{\"version\":{VERSION},\"series\":1,\"names\":[\"later\",\"set\"],\"rings\":[{{\"step_s\":1,\
             \"last\":9,\"rows\":[[100,[5,6]],[101,[null]]]}},{{\"step_s\":7,\"last\":1,\"rows\":[]}}],\
             \"last_event\":0,\"events\":[],\"more\":true}}"
        );
        let (history, _) = Heritage::parse(text.as_bytes()).unwrap().into_parts();
        let (first, samples) = history.rings[0].since(0);
        let place = names().position(|name| name == "set").unwrap();
        let found: Vec<_> = samples.map(|sample| (sample.at_s, sample.values[place])).collect();
        assert_eq!((first, found[0]), (8, (100, 6.0)));
        assert!(found[1].0 == 101 && found[1].1.is_nan());
        assert!(history.rings[0].since(0).1.all(|sample| sample.values[0].is_nan()));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let (history, events) = full();
        let text = String::from_utf8(Heritage::of(7, &history, &events).text()).unwrap();
        for (before, after) in [
            ("{\"version\":1", "{\"version\":2"),
            ("\"rings\"", "\"circles\""),
            ("\"kind\":\"refusal\"", "\"kind\":\"later\""),
            ("\"last_event\":", "\"last_event\":0,\"before\":"),
            (&format!("\"last\":{}", u64::MAX / 2), "\"last\":3"),
            ("}", ""),
        ] {
            let changed = text.replace(before, after);
            assert!(changed != text && Heritage::parse(changed.as_bytes()).is_err(), "{after}");
        }
        assert!(Heritage::parse(b"").is_err());
        assert!(Heritage::parse(&vec![b' '; CONSOLE_HANDOVER_BYTES_MAX + 1]).is_err());
    }
}
