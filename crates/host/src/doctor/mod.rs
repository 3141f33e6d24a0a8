//! `micanite ctl doctor`: what this machine, its interfaces and this container allow for ports around the
//! kernel's network stack, what is missing, and the command that gives it.
//!
//! ```text
//!  sysfs, /proc, ethtool --\
//!  netlink ------------------- facts      (gather)
//!  trials of system calls --/
//!  facts --- findings by subject, ports, the best of them   (judge)
//!  report --- text of a hundred columns, or JSON   (report, print)
//! ```
//!
//! Nothing is changed: what is tried is given back at once, and touches no interface. Judging is a function
//! of the [`facts`]; the tests have facts of machines that none of them runs on (`testdata/doctor`).

mod facts;
mod gather;
mod judge;
mod options;
mod print;
mod report;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::process::ExitCode;

use micanite_control::{Request, stderr};

pub use options::DoctorOptions;

use crate::machine::check_interfaces;

/// No port works as things are.
const EXIT_NO_PORT: u8 = 1;
/// The command line is wrong, or there is no such interface.
const EXIT_DOCTOR_USAGE: u8 = 64;

/// Prints the report. `ask` sends a request to a server, if one runs. 0: a port works; 1: none does yet; 2:
/// usage.
pub fn doctor(options: &DoctorOptions, ask: impl Fn(Request) -> Result<String, String>) -> ExitCode {
    let mut facts =
        match check_interfaces(&options.interfaces).and_then(|()| gather::facts(&options.interfaces)) {
            Ok(facts) => facts,
            Err(reason) => {
                stderr::say(format_args!("micanite: {reason}"));
                return ExitCode::from(EXIT_DOCTOR_USAGE);
            }
        };
    if facts.cpus.nodes.len() > 1 {
        facts.memory_by_node = Some(ask(Request::Numa));
    }
    let report = judge::judge(&facts);
    let text = match options.json {
        true => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
        false => print::text(&report),
    };
    // A reader that closes the output does not want the text.
    let _ = io::stdout().write_all(text.as_bytes());
    match report.verdict.works {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_NO_PORT),
    }
}
