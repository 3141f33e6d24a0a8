//! Requests survive their line.

use proptest::prelude::*;

use super::{Balance, Format, Fraction, RecordOptions, Request};

fn requests() -> impl Strategy<Value = Request> {
    let access = prop::sample::select(vec!["erew", "crew", "crcw"]);
    prop_oneof![
        (access, any::<Option<usize>>())
            .prop_map(|(access, partition)| Request::Mode { access: access.parse().unwrap(), partition }),
        any::<(usize, usize)>().prop_map(|(partition, owner)| Request::Move { partition, owner }),
        any::<bool>().prop_map(|json| Request::Routes(Format { json })),
        Just(Request::Directory),
        any::<bool>().prop_map(|json| Request::Hotkeys(Format { json })),
        Just(Request::Numa),
        any::<bool>().prop_map(|json| Request::Stats(Format { json })),
        Just(Request::Metrics),
        any::<bool>()
            .prop_map(|auto| Request::Balance { balance: if auto { Balance::Auto } else { Balance::Off } }),
        "[!-~]{1,250}".prop_map(|name| Request::Invalidate { name }),
        "/[!-~ ]{0,40}[!-~]".prop_map(|path| Request::Snapshot { path: path.into() }),
        recordings().prop_map(Request::Record),
    ]
}

fn recordings() -> impl Strategy<Value = RecordOptions> {
    let fraction = prop::option::of((1..=1_000_000_000u32).prop_map(|billionths| {
        let fraction = f64::from(billionths) / 1e9;
        fraction.to_string().parse().unwrap()
    }));
    let seconds = prop::option::of(1..=u32::MAX / 1000);
    let bytes_max = prop::option::of((4096..1u64 << 50).prop_map(|bytes| {
        let text = format!("{bytes}b");
        text.parse().unwrap()
    }));
    let of_file = ("/[!-~ ]{0,40}[!-~]", fraction, seconds, bytes_max).prop_map(
        |(file, fraction, seconds, bytes_max)| RecordOptions {
            file: Some(file.into()),
            fraction,
            seconds,
            bytes_max,
            stop: false,
        },
    );
    let without = any::<bool>().prop_map(|stop| RecordOptions { stop, ..RecordOptions::default() });
    prop_oneof![of_file, without]
}

proptest! {
    #[test]
    fn a_line_is_read_as_it_was_written(request in requests()) {
        prop_assert_eq!(request.to_string().parse(), Ok(request));
    }

    #[test]
    fn any_line_is_a_request_or_refused(
        line in "(mode|move|routes|balance|invalidate|stats|snapshot|record)?[ -~]{0,30}",
    ) {
        if let Ok(request) = line.parse::<Request>() {
            prop_assert!(request.to_string().parse() == Ok(request));
        }
    }
}

#[test]
fn unknown_words_are_named() {
    for (line, part) in [
        ("", "not understood"),
        ("reboot", "'reboot'"),
        ("mode", "not understood"),
        ("mode fast", "erew, crew or crcw"),
        ("mode crew x", "'x' is no number"),
        ("move 1", "not understood"),
        ("move 1 -1", "'-1' is no number"),
        ("balance on", "neither auto nor off"),
        ("routes now", "not understood"),
        ("invalidate a b", "not understood"),
        ("record /x", "not understood"),
        ("record 2 - - /x", "'2' is no fraction"),
        ("record - 0 - /x", "not understood"),
        ("record - - 1k /x", "too little"),
    ] {
        let error = line.parse::<Request>().unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn fractions_are_read_as_they_are_written() {
    for text in ["0.01", "1", "0.000000001", "0.333333333"] {
        assert_eq!(text.parse::<Fraction>().unwrap().to_string(), text);
    }
    assert_eq!(Fraction::default().to_string(), "0.01");
    assert_eq!("1".parse::<Fraction>().unwrap().hash_max(), u64::MAX);
    for text in ["0", "-1", "1.1", "nan", "inf", "", "1%"] {
        assert!(text.parse::<Fraction>().is_err(), "{text}");
    }
}
