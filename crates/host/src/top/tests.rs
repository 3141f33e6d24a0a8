//! Samples of both kinds of servers, and screens of every size.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::sample::Sample;
use super::screen::{Screen, Status};
use super::view::View;
use super::{metrics, stats};

/// Metrics of two workers after so many GETs in all, of which a quarter missed.
fn metrics_text(gets: u64) -> String {
    let mut text = String::from(
        "# TYPE micanite_build_info gauge\n\
         micanite_build_info{version=\"0.1.0\"} 1\n\
         micanite_uptime_seconds 100\n\
         micanite_memory_limit_bytes 1048576\n\
         micanite_memory_bytes{use=\"items\"} 262144\n\
         micanite_memory_bytes{use=\"rest\"} 786432\n\
         micanite_connections 3\n",
    );
    for worker in 0..2 {
        let (hits, misses) = (gets * 3 / 8, gets / 8);
        text += &format!(
            "micanite_commands_total{{worker=\"{worker}\",command=\"get\",result=\"hit\"}} {hits}\n\
             micanite_commands_total{{worker=\"{worker}\",command=\"get\",result=\"miss\"}} {misses}\n\
             micanite_commands_total{{worker=\"{worker}\",command=\"set\",result=\"any\"}} 8\n\
             micanite_worker_cpu_seconds_total{{worker=\"{worker}\"}} {}\n",
            gets as f64 / 1600.0
        );
    }
    for (transport, all) in [("stream", gets), ("udp", 0)] {
        for (bound, part) in [("0.001", all / 2), ("0.002", all), ("+Inf", all)] {
            text += &format!(
                "micanite_request_duration_seconds_bucket{{command=\"get\",transport=\"{transport}\",\
                 le=\"{bound}\"}} {part}\n"
            );
        }
    }
    text
}

fn two_samples() -> (Sample, Sample) {
    let now = Instant::now();
    let hot = "   share  key\n 12.500%  first\n  1.000%  \x1b[31msecond\n";
    let first = metrics::sample(now, &metrics_text(0), hot);
    (first, metrics::sample(now + Duration::from_secs(2), &metrics_text(1600), hot))
}

/// Rates, ratios and quantiles are those of the time between two samples.
#[test]
fn two_samples_of_metrics_make_rates() {
    let (first, second) = two_samples();
    let text = View::new("here", Some(&first), &second).text();
    for line in [
        "here: micanite 0.1.0, up 00:01:40",
        "requests/s 800   hit ratio 75.0%   in -/s   out -/s",
        "memory 25.0% of 1.0 MiB: items 256.0 KiB",
        "connections 3 of -   new/s -   CPU -",
        "command   /s   hits    p50    p99  p99.9",
        "get      800  75.0%  1.0ms  2.0ms  2.0ms",
        "set        0      -      -      -      -",
        "worker  requests/s    CPU  connections  partitions",
        "1              400  50.0%            0           0",
        "12.500%  first",
        " 1.000%  \\u{1b}[31msecond",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    assert!(!text.contains('\x1b'));
}

/// A memcached tells less: what is missing is absent, and nothing is made up.
#[test]
fn statistics_of_memcached_have_fewer_rows() {
    let now = Instant::now();
    let text = |gets: u64| {
        format!(
            "STAT version 1.6.45\r\nSTAT uptime 5\r\nSTAT get_hits {gets}\r\nSTAT get_misses 0\r\n\
             STAT cmd_set 7\r\nSTAT delete_hits 0\r\nSTAT evictions 3\r\nSTAT curr_items 9\r\n\
             STAT limit_maxbytes 1000\r\nSTAT bytes 100\r\nSTAT rusage_user 1.5\r\n\
             STAT odd \x1b[2J\r\nnonsense\r\n\
             STAT\r\nEND\r\n"
        )
    };
    let first = stats::sample(now, &text(10));
    let second = stats::sample(now + Duration::from_secs(1), &text(110));
    let shown = View::new("m", Some(&first), &second).text();
    assert!(shown.contains("get      100  100.0%"), "{shown}");
    assert!(shown.contains("items 9   evictions/s 0   expired/s -   refused/s -"), "{shown}");
    for absent in ["delete", "worker", "hot key", "p99", "\x1b"] {
        assert!(!shown.contains(absent), "{absent}: {shown}");
    }
}

/// Counters that begin again make no rates.
#[test]
fn a_restarted_server_has_no_rates_at_first() {
    let (first, second) = two_samples();
    let shown = View::new("here", Some(&second), &Sample { at: second.at + Duration::from_secs(1), ..first });
    assert_eq!(shown.rate, None);
    assert!(shown.text().contains("requests/s -   hit ratio -"));
}

/// Any line that a server may send leaves a sample.
#[test]
fn nonsense_is_left_out() {
    for line in ["", " ", "{", "a{b 1", "a{b=\"} 1", "x{le=\"\"} +Inf", "micanite_items nan?", "%  ", "1%  k"]
    {
        let sample = metrics::sample(Instant::now(), line, line);
        assert_eq!(sample.items, None, "{line}");
    }
}

fn drawn(width: u16, height: u16, screen: &Screen, status: &Status) -> String {
    let (first, second) = two_samples();
    let view = View::new("here", Some(&first), &second);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame, &view, status)).unwrap();
    terminal.backend().to_string()
}

/// Every size of a terminal can be drawn, with help and without, and with any table chosen.
#[test]
fn screens_of_all_sizes_are_drawn() {
    let (first, second) = two_samples();
    let view = View::new("here", Some(&first), &second);
    let lost = || Status { words: "every 1 s".to_owned(), lost: Some("NO ANSWER".to_owned()) };
    let mut screen = Screen::default();
    for step in 0..12 {
        screen.note(Some(f64::from(step)));
        for (width, height) in
            [(1, 1), (1, 30), (2, 2), (3, 5), (7, 4), (40, 12), (80, 24), (200, 60), (300, 1)]
        {
            drawn(width, height, &screen, &Status::default());
            drawn(width, height, &screen, &lost());
        }
        screen.has_help = step % 2 == 0;
        screen.choose_panel(&view, step % 3 != 0);
        screen.choose_column(&view, step % 2 == 0);
        screen.scroll(&view, step % 4 != 0);
    }
}

/// A small terminal has the chosen table, a larger one all of them.
#[test]
fn the_chosen_table_has_room_first() {
    let (first, second) = two_samples();
    let view = View::new("here", Some(&first), &second);
    let mut screen = Screen::default();
    let status = Status { words: "every 1 s".to_owned(), lost: None };
    let small = drawn(60, 12, &screen, &status);
    assert!(small.contains("command") && !small.contains("hot key"), "{small}");
    screen.choose_panel(&view, false);
    let small = drawn(60, 12, &screen, &status);
    assert!(small.contains("hot key") && !small.contains("command"), "{small}");
    let large = drawn(80, 24, &screen, &status);
    for words in ["command", "worker", "hot key", "first", "q quit", "every 1 s"] {
        assert!(large.contains(words), "{words}\n{large}");
    }
}

/// The chosen column sorts, the largest first.
#[test]
fn a_column_sorts_a_table() {
    let (first, second) = two_samples();
    let mut view = View::new("here", Some(&first), &second);
    let names = |view: &View| view.panels[0].rows.iter().map(|row| row.cells[0].clone()).collect::<Vec<_>>();
    assert_eq!(names(&view), ["get", "set"]);
    view.panels[0].rows.reverse();
    view.panels[0].sort(1);
    assert_eq!(names(&view), ["get", "set"]);
    view.panels[0].rows.reverse();
    view.panels[0].sort(0);
    assert_eq!(names(&view), ["get", "set"]);
}
