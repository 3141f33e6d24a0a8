//! memcached's switches for what clients may do, and its options that mean nothing here.

use super::{Options, UsageError, Value};

/// Which protocol connections speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// What their first byte says.
    #[default]
    Auto,
    Ascii,
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

/// What clients may do, and what the process asks of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
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
    /// Letters of options that were given and have no effect.
    pub without_effect: Vec<String>,
}

impl Switches {
    /// Returns whether -C was given: nobody asks for CAS values. Whoever does gets them.
    pub fn is_cas_disabled(&self) -> bool {
        self.without_effect.iter().any(|letter| letter == "-C")
    }

    pub(super) fn of(options: &Options) -> Result<Self, UsageError> {
        if options.memory_file.is_said() {
            return Err(options.memory_file.wrong("not served: --image keeps what is stored"));
        }
        let is_above = |option: &Value, least: f64| match option.text() {
            Some(text) if !text.parse().is_ok_and(|number: f64| number > least) => {
                Err(option.wrong(format!("'{text}' is no number above {least}")))
            }
            text => Ok(text.is_some()),
        };
        let given = [
            (&options.disable_cas, options.disable_cas.is_on()?),
            (&options.enable_largepages, options.enable_largepages.is_on()?),
            (&options.slab_growth_factor, is_above(&options.slab_growth_factor, 1.0)?),
            (&options.slab_min_size, is_above(&options.slab_min_size, 0.0)?),
            (&options.napi_ids, is_above(&options.napi_ids, 0.0)?),
        ];
        let without_effect = given.iter().filter(|(_, is_given)| *is_given);
        let letters = without_effect.filter_map(|(option, _)| option.declared.letter);
        Ok(Self {
            binding: match options.protocol.choice()? {
                "ascii" => Binding::Ascii,
                "binary" => Binding::Binary,
                _ => Binding::Auto,
            },
            no_flush: options.disable_flush_all.is_on()?,
            no_dump: options.disable_dumping.is_on()?,
            no_watch: options.disable_watch.is_on()?,
            lock_memory: options.lock_memory.is_on()?,
            coredumps: options.enable_coredumps.is_on()?,
            without_effect: letters.map(|letter| format!("-{letter}")).collect(),
        })
    }
}
