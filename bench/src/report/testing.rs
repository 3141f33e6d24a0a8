//! Raw data and sections for tests.

use micanite_workload::figure::{Axis, Kind, Line, LineChart, Point};
use serde_json::json;

use crate::report::evidence::{Commit, Evidence, Head, Measured, Ran};
use crate::report::machine::Machine;
use crate::report::peers;
use crate::report::section::{Exhibit, Form, Headline, Results, Section, Table, Text};

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let value = results.json.get("load").ok_or("'load' was not measured")?;
    let chart = LineChart {
        title: "Latency < \"load\"".to_owned(),
        x: Axis::linear("load (requests/s)"),
        y: Axis::log("latency (us)"),
        lines: vec![Line {
            name: "ours".to_owned(),
            kind: Kind::Measured,
            points: vec![Point::new(1e6, value[0].as_f64().ok_or("no number")?)],
        }],
    };
    Ok(vec![
        Exhibit::Headline(Headline {
            what: "a request's time".to_owned(),
            ours: "20 us".to_owned(),
            published: "24 us".to_owned(),
        }),
        Exhibit::Lines(chart),
        Exhibit::Table(Table {
            title: "Rows | more".to_owned(),
            columns: vec!["a".to_owned(), "b".to_owned()],
            rows: vec![vec!["tiny".to_owned(), "1234567.5".to_owned()]],
        }),
        Exhibit::Note("A note.".to_owned()),
    ])
}

pub(crate) fn section(id: &'static str) -> Section {
    Section {
        id,
        text: Text {
            title: "Latency against load".to_owned(),
            question: "How long does a request take?".to_owned(),
            source: "A paper, figure 1".to_owned(),
            published: "24 us.".to_owned(),
            differs: "The machine.".to_owned(),
        },
        commands: |_| Vec::new(),
        draw,
    }
}

pub(crate) fn measured(id: &str, ran: Ran) -> Measured {
    Measured {
        id: id.to_owned(),
        begun: "2026-01-02 03:04 UTC".to_owned(),
        seconds: 7.0,
        form: Form::Short,
        commit: Commit::default(),
        commands: vec![ran],
    }
}

pub(crate) fn ran() -> Ran {
    Ran {
        result: "load".to_owned(),
        typed: "target/release/micanite-lab load --case 'a <b>'".to_owned(),
        seconds: 6.0,
        lacks: None,
        failed: None,
        notes: vec!["no real-time priority".to_owned()],
        json: Some(json!([20.0])),
    }
}

pub(crate) fn evidence(sections: Vec<Measured>) -> Evidence {
    Evidence {
        head: Head {
            form: Form::Short,
            begun: "2026-01-02 03:04 UTC".to_owned(),
            seconds: 8.0,
            commit: Commit { id: "0123456789ab".to_owned(), is_dirty: true },
            machine: Machine { facts: vec![("CPU".to_owned(), "Some CPU".to_owned())] },
            peers: vec![peers::Peer {
                name: "memcached".to_owned(),
                version: None,
                install: "scripts/peer-memcached".to_owned(),
            }],
            command: "make report".to_owned(),
        },
        sections,
    }
}
