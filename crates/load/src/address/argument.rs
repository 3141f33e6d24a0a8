//! Addresses on a command line, which may hold passwords.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};

use super::Address;

/// Parses an address. Other than clap's own parsers it does not repeat a wrong value in the error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressArgument(pub fn(&str) -> Result<Address, String>);

impl TypedValueParser for AddressArgument {
    type Value = Address;

    fn parse_ref(
        &self,
        command: &Command,
        _argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Address, clap::Error> {
        let parsed = value.to_str().ok_or_else(|| "an address is UTF-8".to_owned()).and_then(self.0);
        let refused = |reason| clap::Error::raw(ErrorKind::ValueValidation, format!("{reason}\n"));
        parsed.map_err(|reason| refused(reason).with_cmd(command))
    }
}
