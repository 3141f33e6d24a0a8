//! The words of `-o`: memcached's extended options, `name` or `name=value`, separated by commas.
//!
//! A word that is not in [`WORDS`] is refused. One that means nothing here is accepted, so that the
//! command line of a memcached can be taken as it is; who gives a word a meaning asks [`Extended`]
//! for it by its name.

use super::{UsageError, Word};
use crate::limits::{WATCHER_KIB, WATCHER_KIB_MAX};

const NAME: &str = "-o/--extended";

/// What stands behind the `=` of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// Nothing; memcached reads over what stands there, and so does this.
    None,
    /// A number, 0 or more.
    Number,
    /// Any text but commas.
    Text,
    /// Nothing, or any text but commas.
    Optional,
}

/// Every word that is accepted, by subject.
const WORDS: &[(&str, Value)] = &[
    // Sets of defaults of other versions.
    ("modern", Value::None),
    ("no_modern", Value::None),
    // TLS; see `super::tls`. Session tickets are always given out, output is bounded, and nothing
    // is left to the kernel, so the last three mean nothing.
    ("ssl_chain_cert", Value::Text),
    ("ssl_key", Value::Text),
    ("ssl_ca_cert", Value::Text),
    ("ssl_verify_mode", Value::Number),
    ("ssl_min_version", Value::Text),
    ("ssl_keyformat", Value::Text),
    ("ssl_ciphers", Value::Text),
    ("ssl_wbuf_size", Value::Number),
    ("ssl_session_cache", Value::None),
    ("ssl_kernel_tls", Value::None),
    // Connections. Whoever comes beyond the limit is always told so at once.
    ("idle_timeout", Value::Number),
    ("maxconns_fast", Value::None),
    ("no_maxconns_fast", Value::None),
    ("read_buf_mem_limit", Value::Number),
    ("resp_obj_mem_limit", Value::Number),
    ("inline_ascii_resp", Value::None),
    ("no_inline_ascii_resp", Value::None),
    ("drop_privileges", Value::None),
    ("no_drop_privileges", Value::None),
    // Lines of `watch`: workers write them to the watchers' own buffers.
    ("watcher_logbuf_size", Value::Number),
    ("worker_logbuf_size", Value::Number),
    // Slabs: there are none.
    ("slab_reassign", Value::None),
    ("no_slab_reassign", Value::None),
    ("slab_automove", Value::Optional),
    ("slab_automove_ratio", Value::Text),
    ("slab_automove_window", Value::Number),
    ("slab_automove_freeratio", Value::Text),
    ("slab_chunk_max", Value::Number),
    ("slab_sizes", Value::Text),
    ("no_chunked_items", Value::None),
    // Eviction and expiry: see --eviction. What has expired is always removed.
    ("lru_maintainer", Value::None),
    ("no_lru_maintainer", Value::None),
    ("lru_crawler", Value::None),
    ("no_lru_crawler", Value::None),
    ("lru_crawler_sleep", Value::Number),
    ("lru_crawler_tocrawl", Value::Number),
    ("hot_lru_pct", Value::Number),
    ("warm_lru_pct", Value::Number),
    ("hot_max_factor", Value::Text),
    ("warm_max_factor", Value::Text),
    ("temporary_ttl", Value::Number),
    ("tail_repair_time", Value::Number),
    // `stats sizes` counts when it is asked.
    ("track_sizes", Value::None),
    // The hash table: the index has its own size and growth.
    ("hashpower", Value::Number),
    ("hash_algorithm", Value::Text),
    ("no_hashexpand", Value::None),
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
    pub(super) fn of(options: &[Word]) -> Result<Self, UsageError> {
        let words = options.iter().flat_map(|word| word.0.split(','));
        let parsed = words.map(str::trim).filter(|word| !word.is_empty());
        Ok(Self { words: parsed.map(parse).collect::<Result<_, _>>()? })
    }

    /// Whether the word was given, with a value or without.
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

    /// The words as they are written.
    pub(super) fn options(&self) -> Vec<Word> {
        let write = |(name, value): &(String, Option<String>)| match value {
            Some(value) => Word(format!("{name}={value}")),
            None => Word(name.clone()),
        };
        self.words.iter().map(write).collect()
    }
}

/// What `watcher_logbuf_size` says, in bytes. Looks at what memcached refuses, too.
pub(super) fn watcher_bytes(words: &Extended) -> Result<usize, UsageError> {
    let wrong = |what: String| Err(UsageError(format!("{NAME}: {what}")));
    if words.number("tail_repair_time").is_some_and(|time_s| time_s < 10) {
        return wrong("cannot set tail_repair_time to less than 10 seconds".into());
    }
    match words.number("watcher_logbuf_size").unwrap_or(WATCHER_KIB) {
        kib @ 4..=WATCHER_KIB_MAX => Ok(kib as usize * 1024),
        kib => wrong(format!("watcher_logbuf_size={kib} is not 4 to {WATCHER_KIB_MAX}")),
    }
}

fn parse(word: &str) -> Result<(String, Option<String>), UsageError> {
    let wrong = |what: String| Err(UsageError(format!("{NAME}: {what}")));
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let Some((_, kind)) = WORDS.iter().find(|(known, _)| *known == name) else {
        let refused = REFUSED.iter().find(|(start, _)| name.starts_with(start));
        return wrong(match refused {
            Some((_, reason)) => format!("'{name}' is not served: {reason}"),
            None => format!("'{name}' is no extended option"),
        });
    };
    match (kind, value) {
        (Value::None, _) => Ok((name.into(), None)),
        (Value::Optional, value) => Ok((name.into(), value.map(Into::into))),
        (_, None | Some("")) => wrong(format!("'{name}' needs a value: {name}=...")),
        (Value::Number, Some(value)) if value.parse::<u64>().is_err() => {
            wrong(format!("{name}: '{value}' is no number"))
        }
        (_, Some(value)) => Ok((name.into(), Some(value.into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(words: &[&str]) -> Result<Extended, String> {
        let words: Vec<_> = words.iter().map(|word| Word((*word).into())).collect();
        Extended::of(&words).map_err(|error| error.0)
    }

    #[test]
    fn words_with_and_without_values() {
        let given = extended(&["modern, hashpower=20", "hash_algorithm=xxh3,hashpower=21"]).unwrap();
        assert!(given.has("modern") && given.has("hashpower") && !given.has("no_modern"));
        assert_eq!(given.number("hashpower"), Some(21));
        assert_eq!(given.text("hash_algorithm"), Some("xxh3"));
        assert_eq!(given.text("modern"), None);
        let again: Vec<_> = given.options();
        assert_eq!(Extended::of(&again).unwrap(), given);
        assert_eq!(extended(&["modern=1,"]).unwrap().options(), [Word("modern".into())]);
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
            assert!(said.starts_with(NAME) && said.contains(part), "{said}");
        }
    }

    #[test]
    fn no_word_stands_twice_in_the_table() {
        for (place, (name, _)) in WORDS.iter().enumerate() {
            assert!(WORDS[..place].iter().all(|(other, _)| other != name), "{name}");
        }
    }
}
