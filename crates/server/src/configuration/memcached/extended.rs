//! The words of `-o`: memcached's extended options, `name` or `name=value`, separated by commas.
//!
//! A word that is not in [`WORDS`] is refused. One that means nothing here is accepted, so that the
//! command line of a memcached can be taken as it is; who gives a word a meaning asks [`Extended`]
//! for it by its name.

use crate::configuration::options::did_you_mean;
use crate::configuration::{UsageError, Value};
use crate::limits::{WATCHER_KIB, WATCHER_KIB_MAX};

/// Form of the value behind the `=` of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// No value. A value is ignored, as in memcached.
    None,
    /// A number, 0 or more.
    Number,
    /// Any text but commas.
    Text,
    /// Nothing, or any text but commas.
    Optional,
}

/// Every word that is accepted, by subject.
const WORDS: &[(&str, Form)] = &[
    // Sets of defaults of other versions.
    ("modern", Form::None),
    ("no_modern", Form::None),
    // TLS; see `configuration/tls.rs`. Session tickets are always given out, output is bounded, and nothing
    // is left to the kernel, so the last three mean nothing.
    ("ssl_chain_cert", Form::Text),
    ("ssl_key", Form::Text),
    ("ssl_ca_cert", Form::Text),
    ("ssl_verify_mode", Form::Number),
    ("ssl_min_version", Form::Text),
    ("ssl_keyformat", Form::Text),
    ("ssl_ciphers", Form::Text),
    ("ssl_wbuf_size", Form::Number),
    ("ssl_session_cache", Form::None),
    ("ssl_kernel_tls", Form::None),
    // Connections. One beyond the limit is always refused at once.
    ("idle_timeout", Form::Number),
    ("maxconns_fast", Form::None),
    ("no_maxconns_fast", Form::None),
    ("read_buf_mem_limit", Form::Number),
    ("resp_obj_mem_limit", Form::Number),
    ("inline_ascii_resp", Form::None),
    ("no_inline_ascii_resp", Form::None),
    ("drop_privileges", Form::None),
    ("no_drop_privileges", Form::None),
    // Lines of `watch`: workers write them to the watchers' own buffers.
    ("watcher_logbuf_size", Form::Number),
    ("worker_logbuf_size", Form::Number),
    // Slabs: there are none.
    ("slab_reassign", Form::None),
    ("no_slab_reassign", Form::None),
    ("slab_automove", Form::Optional),
    ("slab_automove_ratio", Form::Text),
    ("slab_automove_window", Form::Number),
    ("slab_automove_freeratio", Form::Text),
    ("slab_chunk_max", Form::Number),
    ("slab_sizes", Form::Text),
    ("no_chunked_items", Form::None),
    // Eviction and expiry: see --eviction. What has expired is always removed.
    ("lru_maintainer", Form::None),
    ("no_lru_maintainer", Form::None),
    ("lru_crawler", Form::None),
    ("no_lru_crawler", Form::None),
    ("lru_crawler_sleep", Form::Number),
    ("lru_crawler_tocrawl", Form::Number),
    ("hot_lru_pct", Form::Number),
    ("warm_lru_pct", Form::Number),
    ("hot_max_factor", Form::Text),
    ("warm_max_factor", Form::Text),
    ("temporary_ttl", Form::Number),
    ("tail_repair_time", Form::Number),
    // `stats sizes` counts when it is asked.
    ("track_sizes", Form::None),
    // The hash table: the index has its own size and growth.
    ("hashpower", Form::Number),
    ("hash_algorithm", Form::Text),
    ("no_hashexpand", Form::None),
];

/// Words of memcached whose meaning would be missed, and why they have none here.
const REFUSED: &[(&str, &str)] = &[
    ("ext_", "there is no external storage"),
    ("proxy_", "there is no proxy"),
    ("sock_cookie_id", "sockets are not marked"),
];

/// The words that were given, checked for their form. The last of a name is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    words: Vec<(String, Option<String>)>,
}

impl Extended {
    /// Reads what stood behind each `-o`.
    pub(in crate::configuration) fn of(option: &Value) -> Result<Self, UsageError> {
        let words: Result<_, _> = option.list().map(parse).collect();
        Ok(Self { words: words.map_err(|what| option.wrong(what))? })
    }

    /// Returns whether the word was given, with a value or without.
    pub fn has(&self, name: &str) -> bool {
        self.words.iter().any(|(given, _)| given == name)
    }

    /// The value of a word, if it was given with one.
    pub fn text(&self, name: &str) -> Option<&str> {
        let last = self.words.iter().rfind(|(given, _)| given == name);
        last.and_then(|(_, value)| value.as_deref())
    }

    /// The value of a word that takes a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(|text| text.parse().ok())
    }
}

/// Returns the value of `watcher_logbuf_size` in bytes. Refuses a short `tail_repair_time`, as memcached
/// does.
pub(in crate::configuration) fn watcher_bytes(words: &Extended, option: &Value) -> Result<usize, UsageError> {
    if words.number("tail_repair_time").is_some_and(|time_s| time_s < 10) {
        return Err(option.wrong("cannot set tail_repair_time to less than 10 seconds"));
    }
    match words.number("watcher_logbuf_size").unwrap_or(WATCHER_KIB) {
        kib @ 4..=WATCHER_KIB_MAX => Ok(kib as usize * 1024),
        kib => Err(option.wrong(format!("watcher_logbuf_size={kib} is not 4 to {WATCHER_KIB_MAX}"))),
    }
}

fn parse(word: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let Some((_, kind)) = WORDS.iter().find(|(known, _)| *known == name) else {
        let refused = REFUSED.iter().find(|(start, _)| name.starts_with(start));
        return Err(match refused {
            Some((_, reason)) => format!("'{name}' is not served: {reason}"),
            None => {
                let hint = did_you_mean(name, WORDS.iter().map(|(known, _)| *known));
                format!("'{name}' is no extended option{hint}")
            }
        });
    };
    match (kind, value) {
        (Form::None, _) => Ok((name.into(), None)),
        (Form::Optional, value) => Ok((name.into(), value.map(Into::into))),
        (_, None | Some("")) => Err(format!("'{name}' needs a value: {name}=...")),
        (Form::Number, Some(value)) if value.parse::<u64>().is_err() => {
            Err(format!("{name}: '{value}' is no number"))
        }
        (_, Some(value)) => Ok((name.into(), Some(value.into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(words: &[&str]) -> Result<Extended, String> {
        let mut options = crate::configuration::Options::default();
        options.extended.extend(words);
        Extended::of(&options.extended).map_err(|error| error.0)
    }

    #[test]
    fn words_with_and_without_values() {
        let given = extended(&["modern, hashpower=20", "hash_algorithm=xxh3,hashpower=21"]).unwrap();
        assert!(given.has("modern") && given.has("hashpower") && !given.has("no_modern"));
        assert_eq!(given.number("hashpower"), Some(21));
        assert_eq!(given.text("hash_algorithm"), Some("xxh3"));
        assert_eq!(given.text("modern"), None);
        assert_eq!(extended(&["modern=1,"]).unwrap().words, [("modern".into(), None)]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (word, part) in [
            ("fooble", "'fooble' is no extended option"),
            ("modern,fooble=3", "'fooble'"),
            ("hashpower", "needs a value"),
            ("hashpower=", "needs a value"),
            ("hashpower=-1", "'-1' is no number"),
            ("hashpower=x", "'x' is no number"),
        ] {
            let said = extended(&[word]).unwrap_err();
            assert!(said.starts_with("-o/--extended: ") && said.contains(part), "{said}");
        }
    }

    #[test]
    fn no_word_stands_twice_in_the_table() {
        for (place, (name, _)) in WORDS.iter().enumerate() {
            assert!(WORDS[..place].iter().all(|(other, _)| other != name), "{name}");
        }
    }
}
