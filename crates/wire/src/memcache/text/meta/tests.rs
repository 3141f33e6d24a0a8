//! Parsing of meta lines, and replies to them.

use proptest::prelude::*;

use super::reply::{MetaItem, Reply};
use super::*;
use crate::memcache::text::{Command, Parser, Step, expiry};

fn line(text: &str) -> Result<(MetaLine<'_>, usize), String> {
    match Parser::default().step(text.as_bytes(), false) {
        Step::Command { command: Command::Meta(line), line_bytes } => Ok((line, line_bytes)),
        Step::Refused { reply, .. } => Err(reply.trim_end().to_owned()),
        other => Err(format!("{other:?}")),
    }
}

/// Returns the refusal of a line's flags; empty if they are valid.
fn misuse(text: &str) -> String {
    match line(text).map(|(line, _)| line.flags()) {
        Ok(Ok(_)) => String::new(),
        Ok(Err(misuse)) => {
            let reply = misuse.reply.trim_end().trim_start_matches("CLIENT_ERROR ");
            let ends = if misuse.skips_value { "" } else { ", the value is a line" };
            format!("{reply}{ends}")
        }
        Err(reply) => reply.trim_start_matches("CLIENT_ERROR ").to_owned(),
    }
}

const BAD: &str = "bad command line format";
const BAD_LINE: &str = "bad command line format, the value is a line";
const BAD_KEY: &str = "error decoding key";
const BAD_TOKEN: &str = "bad token in command line format";
const DUPLICATE: &str = "duplicate flag";
const INVALID: &str = "invalid flag";
const ARITHMETIC: &str = "invalid or duplicate flag";

#[test]
fn refusals_match_memcached() {
    for (text, expected) in [
        ("mg\r\n", BAD),
        ("mg a\r\n", ""),
        ("mg a s v t f c k q l h u O123 x y\r\n", INVALID),
        ("mg a k1 v5 q1 f9\r\n", ""),
        ("mg a v v\r\n", DUPLICATE),
        ("mg a z\r\n", INVALID),
        ("mg a z Tx\r\n", INVALID),
        ("mg a Tx f f\r\n", DUPLICATE),
        ("mg a Tx Dx\r\n", "invalid numeric delta value"),
        ("mg a Dx Tx\r\n", BAD_TOKEN),
        ("mg a Tx Fx\r\n", BAD_TOKEN),
        ("mg a Fx\r\n", BAD),
        ("mg a J\r\n", "invalid numeric initial value"),
        ("mg a b\r\n", BAD_KEY),
        ("mg a Cx b\r\n", BAD_KEY),
        ("mg a b Cx\r\n", BAD_TOKEN),
        ("mg a b Fx\r\n", BAD_KEY),
        ("mg a b f f\r\n", DUPLICATE),
        ("ms a 1 b MI\r\n", BAD_KEY),
        ("ma a b MR\r\n", ARITHMETIC),
        ("me a b\r\n", ""),
        ("mg a Tx @\r\n", BAD_LINE),
        ("mg a \u{7f}\r\n", BAD_LINE),
        ("mg a [\r\n", INVALID),
        ("mg a 9\r\n", INVALID),
        ("mg a T+30\r\n", BAD_TOKEN),
        ("mg a T4294967296\r\n", BAD_TOKEN),
        ("mg a N-\r\n", ""),
        ("mg a C+5\r\n", BAD_TOKEN),
        ("mg a C18446744073709551615\r\n", ""),
        ("mg a C18446744073709551616\r\n", BAD_TOKEN),
        ("mg a O1234567890123456789012345678901\r\n", ""),
        ("mg a O12345678901234567890123456789012\r\n", "opaque token too long"),
        ("mg a c f h k l q s t u v O1 N1 R1 T1 C1 E1 F1 D1\r\n", ""),
        ("mg a c f h k l q s t u v O1 N1 R1 T1 C1 E1 F1 D1 J1\r\n", "options flags are too long"),
        ("ms a 2 c f h k l q s t u v O1 N1 R1 T1 C1 E1 F1\r\n", ""),
        ("ms a 2 c f h k l q s t u v O1 N1 R1 T1 C1 E1 F1 D1\r\n", "options flags are too long"),
        ("ms a\r\n", BAD),
        ("ms a x\r\n", BAD),
        ("ms a +2\r\n", BAD),
        ("ms a 2147483646\r\n", BAD),
        ("ms a 2 @\r\n", BAD_LINE),
        ("ms a 2 F4294967296\r\n", BAD),
        ("ms a 2 M\r\n", "invalid mode for ms M token"),
        ("ms a 2 MX\r\n", "invalid mode for ms M token"),
        ("ms a 2 Mset\r\n", "invalid mode for ms M token"),
        ("ms a 2 MSET\r\n", ""),
        ("ma a Minc\r\n", "invalid mode for ma M token"),
        ("ms a 2 MA I S100\r\n", INVALID),
        ("md a z\r\n", INVALID),
        ("md a Cx\r\n", BAD_TOKEN),
        ("ma a Dx\r\n", ARITHMETIC),
        ("ma a q q\r\n", ARITHMETIC),
        ("ma a MX\r\n", "invalid mode for ma M token"),
        ("ma a M+\r\n", ""),
        ("ma a MINCR\r\n", ""),
        ("me a z z z\r\n", ""),
        ("me a @\r\n", BAD_LINE),
    ] {
        assert_eq!(misuse(text), expected, "{text:?}");
    }
    let long = "k".repeat(251);
    assert_eq!(misuse(&format!("mg {long}\r\n")), BAD);
    assert_eq!(misuse(&format!("ma {long}\r\n")), ARITHMETIC);
    assert_eq!(misuse(&format!("ma {long} q !\r\n")), BAD);
}

#[test]
fn flags_are_parsed() {
    let (line, _) = line("ms a2V5 5 b T30 N-1 R5 F7 C9 E10 D3 J4 MP I x q v c l u\r\n").unwrap();
    assert_eq!((line.key, line.verb), (b"a2V5".as_slice(), MetaVerb::Store { value_bytes: 5 }));
    let flags = line.flags().unwrap();
    assert_eq!(flags.fields.flags(), b"TNcl");
    assert_eq!((flags.fields.touch, flags.fields.vivify), (30, -1));
    assert_eq!(
        flags,
        MetaFlags {
            base64: true,
            quiet: true,
            value: true,
            cas: true,
            access: true,
            unnoticed: true,
            empty: true,
            invalidate: true,
            touch: Some(30),
            vivify: Some(-1),
            recache: Some(5),
            touch_before_recache: true,
            touch_before_vivify: true,
            client_flags: 7,
            compare: Some(9),
            new_cas: Some(10),
            delta: Some(3),
            initial: 4,
            mode: b'P',
            fields: flags.fields,
        }
    );
}

#[test]
fn fields_of_replies_keep_their_order() {
    let (line, _) = line("mg key q s b O12 v t k f h\r\n").unwrap();
    let flags = MetaLine { key: b"a2V5", ..line }.flags().unwrap();
    assert_eq!(flags.fields.flags(), b"sOtkfh");
    assert_eq!(flags.fields.opaque, b"O12");
}

const ITEM: MetaItem = MetaItem {
    flags: 5,
    value_bytes: 11,
    cas: 77,
    expiry_before_s: 1090,
    created: false,
    access_age_s: 4,
    fetched: true,
    stale: false,
    won: false,
    token_sent: false,
};

fn answered(text: &str, write: impl Fn(&Reply<'_>, &mut [u8]) -> usize) -> String {
    let (line, _) = line(text).unwrap();
    let flags = line.flags().unwrap();
    let base64 = flags.base64;
    let mut decoded = [0; base64::DECODED_BYTES_MAX];
    let key = match base64 {
        true => base64::decode(line.key, &mut decoded).unwrap(),
        false => line.key,
    };
    let reply = Reply { fields: &flags.fields, key, base64, now_s: 1000 };
    let mut out = [0; reply::LINE_BYTES_MAX];
    let end = write(&reply, &mut out);
    String::from_utf8(out[..end].to_vec()).unwrap()
}

#[test]
fn gets_are_answered_in_the_order_of_their_flags() {
    let marked = MetaItem { stale: true, won: true, token_sent: true, ..ITEM };
    let created = MetaItem { created: true, value_bytes: 0, ..ITEM };
    for (text, item, value, expected) in [
        ("mg key\r\n", ITEM, false, "HD\r\n"),
        ("mg key v\r\n", ITEM, true, "VA 11\r\n"),
        ("mg key s v t f c k q O9 l h\r\n", ITEM, true, "VA 11 s11 t90 f5 c77 kkey O9 l4 h1\r\n"),
        ("mg key h l O9 k c f t s\r\n", ITEM, false, "HD h1 l4 O9 kkey c77 f5 t90 s11\r\n"),
        ("mg key t T30\r\n", ITEM, false, "HD t90\r\n"),
        ("mg key T30 t\r\n", ITEM, false, "HD t30\r\n"),
        ("mg key T0 t\r\n", ITEM, false, "HD t-1\r\n"),
        ("mg key N30 t\r\n", ITEM, false, "HD t90\r\n"),
        ("mg key N30 t\r\n", created, false, "HD t30\r\n"),
        ("mg key t N30\r\n", created, false, "HD t-1\r\n"),
        ("mg key N30 T60 t\r\n", created, false, "HD t60\r\n"),
        ("mg a2V5 k b\r\n", marked, false, "HD ka2V5 b Z X W\r\n"),
    ] {
        assert_eq!(answered(text, |reply, out| reply.got(out, value, &item)), expected, "{text:?}");
    }
}

#[test]
fn changes_are_answered_in_the_order_of_their_flags() {
    let stored = |reply: &Reply<'_>, out: &mut [u8]| reply.stored(out, reply::DONE, 77, 3);
    assert_eq!(answered("ms a2V5 3 s k c O1 b t f\r\n", stored), "HD s3 ka2V5 b c77 O1\r\n");
    let other = |reply: &Reply<'_>, out: &mut [u8]| reply.other(out, reply::NOT_FOUND);
    assert_eq!(answered("md key s k c O1 q\r\n", other), "NF kkey O1\r\n");
    let counted = |reply: &Reply<'_>, out: &mut [u8]| reply.counted(out, Some(2), &ITEM);
    assert_eq!(answered("ma key t c k O1 T5 s\r\n", counted), "VA 2 t90 c77 kkey O1\r\n");
    assert_eq!(answered("ma key T5 t N9\r\n", counted), "VA 2 t5\r\n");
}

proptest! {
    #[test]
    fn the_longest_line_fits(
        words in prop::sample::subsequence(
            vec!["s", "t", "c", "f", "h", "l", "k", "b", "v", "O1234567890123456789012345678901"], 10
        ).prop_shuffle(),
        value_bytes in 0usize..1 << 30,
    ) {
        let key = "k".repeat(250);
        let text = format!("mg {key} {}\r\n", words.join(" "));
        let item = MetaItem {
            flags: u32::MAX,
            value_bytes,
            cas: u64::MAX,
            expiry_before_s: u32::MAX,
            created: false,
            access_age_s: u32::MAX,
            fetched: true,
            stale: true,
            won: true,
            token_sent: true,
        };
        // A key of 250 bytes is too long for base64 in a line.
        let text = text.replace(" b", "");
        let reply = answered(&text, |reply, out| reply.got(out, true, &item));
        prop_assert!(reply.ends_with(" Z X W\r\n"));
    }

    #[test]
    fn any_flags_are_read_or_refused(words in "[A-Za-z0-9 @-]{0,60}") {
        for verb in ["mg k", "ms k 3", "md k", "ma k", "me k"] {
            let text = format!("{verb} {words}\r\n");
            let (line, _) = line(&text).unwrap();
            if let Err(misuse) = line.flags() {
                prop_assert!(misuse.reply.ends_with("\r\n"));
            }
        }
    }

    #[test]
    fn meta_expiries_match_classic_expiries(number in any::<i32>()) {
        let text = format!("mg k T{number}\r\n");
        let (line, _) = line(&text).unwrap();
        let touch = line.flags().unwrap().touch.unwrap();
        prop_assert_eq!(expiry(touch, 1000), expiry(number.into(), 1000));
    }
}
