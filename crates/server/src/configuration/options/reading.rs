//! Reading an option: its text as a flag, a number, a size, a name or a path, or an error that names it.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use micanite_control::size;

use super::{Kind, Value};
use crate::configuration::UsageError;

impl Value {
    /// Returns an error that names the option.
    pub fn wrong(&self, what: impl Display) -> UsageError {
        UsageError(format!("{}: {what}", self.declared.label()))
    }

    /// Returns whether a flag is on.
    pub fn is_on(&self) -> Result<bool, UsageError> {
        self.text().map_or(Ok(false), str::parse).map_err(|_| {
            let text = self.text().unwrap_or_default();
            self.wrong(format!("'{text}' is neither true nor false"))
        })
    }

    /// Returns a number or a size within the declared range.
    pub fn number(&self) -> Result<usize, UsageError> {
        let text = self.text().unwrap_or("0");
        let (number, range, write): (_, _, fn(usize) -> String) = match &self.declared.kind {
            Kind::Size(unit_bytes, range) => {
                (size::parse(text, *unit_bytes).map_err(|what| self.wrong(what))?, range, size::exact)
            }
            Kind::Number(range) => match text.parse::<i64>() {
                // No range has this number.
                Ok(number) => {
                    (usize::try_from(number).unwrap_or(usize::MAX), range, |bound| bound.to_string())
                }
                Err(_) => return Err(self.wrong(format!("'{text}' is no number"))),
            },
            kind => unreachable!("{} is {kind:?}, and has no range", self.declared.name),
        };
        if range.contains(&number) {
            return Ok(number);
        }
        let (least, most) = (write(*range.start()), write(*range.end()));
        Err(self.wrong(format!("{text} is out of range, must be {least} to {most}")))
    }

    /// Returns a port, 0 for none, or -1 for a free one.
    pub fn port(&self) -> Result<i64, UsageError> {
        let text = self.text().unwrap_or("0");
        match text.parse() {
            Ok(port) if (-1..=65535).contains(&port) => Ok(port),
            _ => Err(self.wrong(format!("'{text}' is no port: 1 to 65535, 0 for none, -1 for a free one"))),
        }
    }

    /// Returns one of the declared names.
    pub fn choice(&self) -> Result<&'static str, UsageError> {
        let Kind::Choice(names) = self.declared.kind else {
            unreachable!("{} is no choice", self.declared.name);
        };
        let text = self.text().unwrap_or_default();
        let found = names.iter().find(|name| **name == text);
        found.copied().ok_or_else(|| self.wrong(format!("'{text}' is none of {}", names.join(", "))))
    }

    /// Returns a value whose type knows its names.
    pub fn parse<T: FromStr<Err: Display>>(&self) -> Result<T, UsageError> {
        self.text().unwrap_or_default().parse().map_err(|what| self.wrong(what))
    }

    pub fn path(&self) -> Result<Option<PathBuf>, UsageError> {
        match self.text() {
            Some("") => Err(self.wrong("the path is empty")),
            text => Ok(text.map(PathBuf::from)),
        }
    }
}
