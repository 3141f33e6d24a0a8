//! One option: its declaration, and the words that a person gave it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches};

use super::WITHOUT_EFFECT;
use crate::configuration::checks::absolute;

/// Form of an option's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Flag,
    /// A flag that counts, such as `-vv`.
    Count,
    Number(RangeInclusive<usize>),
    /// A size; a bare number counts units of so many bytes.
    Size(u64, RangeInclusive<usize>),
    /// A number above this one, perhaps with a fraction.
    Above(u8),
    Port,
    Choice(&'static [&'static str]),
    /// A path, made independent of the working directory, which a daemon leaves; `none` stays.
    Path,
    Text,
    /// Text that may begin with a hyphen.
    Any,
    /// A port, and beside it devices ([`super::Options::split_port`]).
    Ports,
    /// Repeatable.
    List,
}

/// Facts about an option that do not depend on its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Long name, and key in TOML.
    pub name: String,
    /// Name in TOML and for `--set`: `native.payload`, where the section is `native`.
    pub path: String,
    pub section: &'static str,
    pub heading: &'static str,
    pub help: String,
    pub kind: Kind,
    pub letter: Option<char>,
    /// Former name.
    alias: Option<&'static str>,
    /// Name within the section, of the option that the section is named after.
    key: &'static str,
    pub value_name: &'static str,
    default: Option<&'static str>,
    /// Makes `-h` show it, not only `--help`.
    is_common: bool,
    is_hidden: bool,
    /// Its file is read again on the signal HUP.
    is_reread: bool,
}

impl Declaration {
    pub const fn new(kind: Kind, value_name: &'static str) -> Self {
        Self {
            name: String::new(),
            path: String::new(),
            section: "",
            heading: "",
            help: String::new(),
            kind,
            letter: None,
            alias: None,
            key: "",
            value_name,
            default: None,
            is_common: false,
            is_hidden: false,
            is_reread: false,
        }
    }

    pub const fn letter(mut self, letter: char) -> Self {
        self.letter = Some(letter);
        self
    }

    pub const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub const fn key(mut self, key: &'static str) -> Self {
        self.key = key;
        self
    }

    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub const fn common(mut self) -> Self {
        self.is_common = true;
        self
    }

    pub const fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    pub const fn reread(mut self) -> Self {
        self.is_reread = true;
        self
    }

    pub fn named(
        mut self,
        field: &str,
        (heading, section): (&'static str, &'static str),
        help: &str,
    ) -> Self {
        (self.heading, self.section) = (heading, section);
        self.name = field.replace('_', "-");
        self.path = match self.name.strip_prefix(section) {
            _ if section.is_empty() => self.name.clone(),
            Some("") => format!("{section}.{}", self.key),
            rest => format!("{section}.{}", rest.unwrap_or_default().trim_start_matches('-')),
        };
        self.help = match self.default {
            Some(default) if !self.is_switch() => format!("{} [default: {default}]", help.trim()),
            _ => help.trim().into(),
        };
        self
    }

    /// Returns the names of the environment variable; the last is the one to use.
    pub fn variables(&self) -> Vec<String> {
        let names = self.alias.into_iter().chain([self.name.as_str()]);
        names.map(|name| format!("MICANITE_{}", name.to_uppercase().replace('-', "_"))).collect()
    }

    /// Returns the name that messages use: `-t/--threads`.
    pub fn label(&self) -> String {
        let letter = self.letter.map_or(String::new(), |letter| format!("-{letter}/"));
        format!("{letter}--{}", self.name)
    }

    pub fn is_named(&self, name: &str) -> bool {
        name == self.name || name == self.path || self.alias == Some(name)
    }

    /// Returns whether the help shows it in the table of tuning.
    pub fn is_tuning(&self) -> bool {
        !self.section.is_empty() && self.section != self.name
    }

    /// Returns whether the help shows it in a table, not in the list.
    pub fn is_tabled(&self) -> bool {
        !self.is_hidden && (self.is_tuning() || self.heading == WITHOUT_EFFECT)
    }

    /// Returns whether it may be suggested: it does something, and people use it.
    pub fn is_offered(&self) -> bool {
        !self.is_hidden && self.heading != WITHOUT_EFFECT
    }

    /// Returns whether no help shows it.
    pub fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// Returns whether the signal HUP makes the server read its file again.
    pub fn is_reread(&self) -> bool {
        self.is_reread
    }

    /// Returns the former name.
    pub fn alias_name(&self) -> Option<&'static str> {
        self.alias
    }

    pub fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Flag | Kind::Count)
    }

    /// Returns the argument of the command line.
    pub fn argument(&'static self) -> Arg {
        let name = self.name.as_str();
        let argument = Arg::new(name)
            .long(name)
            .short(self.letter)
            .aliases(self.alias)
            .help(&self.help)
            .help_heading(self.heading)
            .hide_short_help(!self.is_common)
            .hide(self.is_hidden || self.is_tabled());
        match self.kind {
            Kind::Count => argument.action(ArgAction::Count),
            Kind::Flag => argument
                .value_name("BOOL")
                .action(ArgAction::Append)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => argument.value_name(self.value_name).action(ArgAction::Append).allow_hyphen_values(
                matches!(self.kind, Kind::Number(_) | Kind::Size(..) | Kind::Port | Kind::Any | Kind::Ports),
            ),
        }
    }
}

/// Source of an option's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    Default,
    CommandLine,
    Environment,
    File,
}

impl Origin {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::CommandLine => "command line",
            Self::Environment => "environment",
            Self::File => "file",
        }
    }
}

/// An option and the words that it was given; none: unsaid.
#[derive(Clone, Debug)]
pub struct Value {
    pub declared: Arc<Declaration>,
    words: Vec<String>,
    origin: Origin,
}

impl PartialEq for Value {
    /// The same words are the same value, wherever they came from.
    fn eq(&self, other: &Self) -> bool {
        self.declared == other.declared && self.words == other.words
    }
}

impl Eq for Value {}

impl Value {
    pub fn new(declared: Declaration) -> Self {
        Self { declared: Arc::new(declared), words: Vec::new(), origin: Origin::Default }
    }

    /// Returns whether it was given, be it as the default says.
    pub fn is_said(&self) -> bool {
        !self.words.is_empty()
    }

    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Notes the source of the words, if there are some.
    pub fn set_origin(&mut self, origin: Origin) {
        self.origin = if self.is_said() { origin } else { Origin::Default };
    }

    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the text that was given, the last of several, or the default.
    pub fn text(&self) -> Option<&str> {
        self.words.last().map(String::as_str).or(self.declared.default)
    }

    pub fn set(&mut self, text: impl ToString) {
        self.words = vec![text.to_string()];
    }

    /// Sets it if it was not given.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn set_unsaid(&mut self, text: impl ToString) {
        if !self.is_said() {
            self.set(text);
        }
    }

    /// Sets the words; an option that is not repeatable keeps the last.
    pub fn set_words(&mut self, mut words: Vec<String>) {
        if !matches!(self.declared.kind, Kind::Ports | Kind::List) {
            words.drain(..words.len().saturating_sub(1));
        }
        self.words = words;
    }

    /// Returns the parts of all words: spaces separate them.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.words.iter().flat_map(|word| word.split_whitespace())
    }

    /// Adds further words.
    pub fn extend(&mut self, words: impl IntoIterator<Item: ToString>) {
        self.words.extend(words.into_iter().map(|word| word.to_string()));
    }

    /// Returns the parts of all words, or of the default: commas separate them.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        let default = self.declared.default.filter(|_| !self.is_said());
        let words = self.words.iter().map(String::as_str).chain(default);
        words.flat_map(|word| word.split(',')).map(str::trim).filter(|word| !word.is_empty())
    }

    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Takes the other's words if it has none.
    pub fn or(&mut self, other: Self) {
        if !self.is_said() {
            (self.words, self.origin) = (other.words, other.origin);
        }
    }

    /// Takes what the command line said.
    pub fn take(&mut self, matches: &ArgMatches) {
        let name = self.declared.name.as_str();
        match self.declared.kind {
            Kind::Count if matches.get_count(name) > 0 => self.set(matches.get_count(name)),
            Kind::Count => {}
            _ => {
                let words = matches.get_many::<String>(name);
                self.set_words(words.map_or_else(Vec::new, |words| words.cloned().collect()));
            }
        }
    }

    /// Says the default.
    pub fn complete(&mut self) {
        if let (false, Some(default)) = (self.is_said(), self.declared.default) {
            self.set(default);
        }
    }

    pub fn make_absolute(&mut self) {
        if self.declared.kind == Kind::Path {
            let words = self.words.iter_mut().filter(|word| !word.is_empty() && *word != "none");
            words.for_each(|word| *word = absolute(word).display().to_string());
        }
    }
}
