//! memcached's switches for what clients may do, and its options that mean nothing here.

use super::{Options, UsageError, Word};

/// Which protocol connections speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// What their first byte says.
    #[default]
    Auto,
    /// Text.
    Ascii,
    /// Binary.
    Binary,
}

impl Binding {
    /// As memcached writes it in `stats settings`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto-negotiate",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Which protocol connections speak.
    pub binding: Binding,
    /// Whether `flush_all` is refused.
    pub no_flush: bool,
    /// Whether dumps and `stats detail` are refused.
    pub no_dump: bool,
    /// Whether `watch` is refused.
    pub no_watch: bool,
    /// Whether all memory is to be locked.
    pub lock_memory: bool,
    /// Whether core files are wanted.
    pub coredumps: bool,
    /// Options that were given and have no effect.
    pub without_effect: Vec<&'static str>,
}

impl Switches {
    /// `Some(true)` if an option was given that has no effect.
    pub(super) fn has_no_effect(&self, letter: &str) -> Option<bool> {
        self.without_effect.contains(&letter).then_some(true)
    }

    /// Whether -C was given: nobody asks for CAS values. Who does gets them.
    pub fn is_cas_disabled(&self) -> bool {
        self.has_no_effect("-C").is_some()
    }

    pub(super) fn of(options: &Options) -> Result<Self, UsageError> {
        if options.memory_file.is_some() {
            let what = "-e/--memory-file is not served: --image keeps what is stored";
            return Err(UsageError(what.into()));
        }
        let binding = match options.protocol.as_ref().map(|word| word.0.as_str()) {
            None | Some("auto" | "auto-negotiate") => Binding::Auto,
            Some("ascii") => Binding::Ascii,
            Some("binary") => Binding::Binary,
            Some(other) => {
                return Err(UsageError(format!("-B/--protocol: '{other}' is none of ascii, binary, auto")));
            }
        };
        let number = |name: &str, word: &Option<Word>, above: f64| match word {
            Some(Word(text)) if text.parse().is_ok_and(|number: f64| number > above) => Ok(true),
            Some(Word(text)) => Err(UsageError(format!("{name}: '{text}' is no number above {above}"))),
            None => Ok(false),
        };
        let given = [
            ("-C", options.disable_cas.unwrap_or(false)),
            ("-L", options.enable_largepages.unwrap_or(false)),
            ("-f", number("-f", &options.slab_growth_factor, 1.0)?),
            ("-n", number("-n", &options.slab_min_size, 0.0)?),
            ("-N", number("-N", &options.napi_ids, 0.0)?),
        ];
        let without_effect = given.iter().filter(|(_, given)| *given);
        Ok(Self {
            binding,
            no_flush: options.disable_flush_all.unwrap_or(false),
            no_dump: options.disable_dumping.unwrap_or(false),
            no_watch: options.disable_watch.unwrap_or(false),
            lock_memory: options.lock_memory.unwrap_or(false),
            coredumps: options.enable_coredumps.unwrap_or(false),
            without_effect: without_effect.map(|(letter, _)| *letter).collect(),
        })
    }
}
