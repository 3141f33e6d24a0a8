//! Options in TOML: by their long names, or in sections.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use toml::Value as Toml;

use super::{Kind, Options, Value};

impl fmt::Display for Options {
    /// Writes the file that leads to these options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<_> = self.values().into_iter().filter(|value| value.is_said()).collect();
        // TOML has keys without a section first.
        said.sort_by_key(|value| !value.declared.section.is_empty());
        let mut section = "";
        for value in said {
            if section != value.declared.section {
                section = value.declared.section;
                writeln!(f, "\n[{section}]")?;
            }
            let path = &value.declared.path;
            writeln!(f, "{} = {}", path.rsplit('.').next().unwrap_or(path), toml(value))?;
        }
        Ok(())
    }
}

/// Writes a number where it is one. A mode such as 0700 is text: TOML knows no leading zeros.
fn toml(value: &Value) -> Toml {
    let scalar = |word: &String| match word.parse::<i64>() {
        Ok(number) if number.to_string() == *word => Toml::Integer(number),
        _ => Toml::String(word.clone()),
    };
    match (&value.declared.kind, value.words()) {
        (Kind::Flag, [word]) if word.parse::<bool>().is_ok() => Toml::Boolean(word == "true"),
        (Kind::List, words) => Toml::Array(words.iter().map(scalar).collect()),
        (_, [word]) => scalar(word),
        (_, words) => Toml::Array(words.iter().map(scalar).collect()),
    }
}

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(File)
    }
}

struct File;

impl<'de> Visitor<'de> for File {
    type Value = Options;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("options by their names")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Options, M::Error> {
        let mut options = Options::default();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value_seed(Entry { options: &mut options, name })?;
        }
        options.split_port();
        Ok(options)
    }
}

/// Reads one value, so that a mistake is reported with its line.
struct Entry<'a> {
    options: &'a mut Options,
    name: String,
}

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match Toml::deserialize(deserializer)? {
            Toml::Table(section) => {
                let mut entries = section.into_iter();
                entries.try_for_each(|(key, said)| self.options.read(&format!("{}.{key}", self.name), said))
            }
            said => self.options.read(&self.name, said),
        }
        .map_err(D::Error::custom)
    }
}

impl Options {
    fn read(&mut self, name: &str, said: Toml) -> Result<(), String> {
        let value = self.find(name)?;
        let words = words(value, said).map_err(|what| format!("{name}: {what}"))?;
        value.set_words(words);
        Ok(())
    }
}

fn words(value: &Value, said: Toml) -> Result<Vec<String>, String> {
    match said {
        Toml::String(text) => Ok(vec![text]),
        Toml::Integer(number) => Ok(vec![number.to_string()]),
        Toml::Float(number) => Ok(vec![number.to_string()]),
        Toml::Boolean(is_on) if value.declared.kind == Kind::Flag => Ok(vec![is_on.to_string()]),
        Toml::Array(list) => {
            let lists: Result<Vec<_>, _> = list.into_iter().map(|said| words(value, said)).collect();
            let words = lists?.concat();
            match value.declared.kind {
                Kind::Ports | Kind::List => Ok(words),
                _ => Ok(vec![words.join(",")]),
            }
        }
        other => Err(format!("a {} is neither a number nor text", other.type_str())),
    }
}
