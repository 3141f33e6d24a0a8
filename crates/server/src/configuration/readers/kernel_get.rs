//! `--kernel-get`: GETs answered in the kernel, before its network stack.

use std::path::PathBuf;

use micanite_net::bypass::PortName;
use micanite_net::xdp::{Interface, Mode};

use crate::configuration::{Options, Settings, UsageError};

/// More than these are a mistake.
const INTERFACES_MAX: usize = 32;

/// Settings of `--kernel-get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelGetSettings {
    /// Interfaces whose datagrams are looked at.
    pub interfaces: Vec<String>,
    pub mode: Mode,
    /// Directory where the memory of the image stays for the next start, absolute.
    pub pin: Option<PathBuf>,
    /// The load from which on other cores take over; 0: none do.
    pub spread_percent: u32,
}

/// Checks them. The other settings are complete.
pub(in crate::configuration) fn kernel_get(
    options: &Options,
    settings: &Settings,
) -> Result<Option<KernelGetSettings>, UsageError> {
    let words = options.kernel_get.list().flat_map(str::split_whitespace);
    let interfaces: Vec<String> = words.filter(|name| *name != "none").map(Into::into).collect();
    let mode = match options.kernel_get_mode.choice()? {
        "native" => Mode::Native,
        "generic" => Mode::Generic,
        _ => Mode::Auto,
    };
    let spread_percent = options.kernel_get_spread.number()? as u32;
    let pin = options.kernel_get_pin.path()?;
    if interfaces.is_empty() {
        let others = [&options.kernel_get_mode, &options.kernel_get_pin, &options.kernel_get_spread];
        return match others.into_iter().find(|option| option.is_said()) {
            Some(option) => Err(option.wrong("there is no --kernel-get INTERFACE that it is for")),
            None => Ok(None),
        };
    }
    check(&interfaces, settings).map_err(|what| options.kernel_get.wrong(what))?;
    Ok(Some(KernelGetSettings { interfaces, mode, pin, spread_percent }))
}

/// Checks the interfaces against each other, the other settings and the machine.
fn check(interfaces: &[String], settings: &Settings) -> Result<(), String> {
    if interfaces.len() > INTERFACES_MAX {
        return Err(format!("more than {INTERFACES_MAX} interfaces"));
    }
    if let Some(at) = (1..interfaces.len()).find(|at| interfaces[..*at].contains(&interfaces[*at])) {
        return Err(format!("{} stands there twice", interfaces[at]));
    }
    let native = settings.native.as_ref().filter(|native| native.bypass.is_none());
    if settings.udp.is_none() && native.is_none() {
        return Err("it answers datagrams that the server takes from the kernel: -U PORT for memcached's, \
                    --native PORT for the native protocol"
            .into());
    }
    if settings.image.is_some() {
        return Err("the program in the kernel reads maps of the kernel, and --image is files: choose one; \
                    --kernel-get-pin DIRECTORY keeps what is stored, too"
            .into());
    }
    let ports = settings.bypass().map_or(&[][..], |bypass| &bypass.ports);
    for name in interfaces {
        let is_there = |port: &PortName| matches!(port, PortName::Xdp { interface } if interface == name);
        if ports.iter().any(|port| is_there(&port.name)) {
            return Err(format!(
                "an interface has one XDP program, and --bypass xdp:{name} has that of {name}"
            ));
        }
        Interface::find(name).map_err(|what| what.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(toml: &str) -> Result<Settings, String> {
        let options: Options = toml::from_str(toml).expect("options of a test");
        Settings::of(&options, 1).map_err(|error| error.0)
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (toml, part) in [
            ("kernel-get = 'lo'", "-U PORT"),
            ("kernel-get-mode = 'native'", "no --kernel-get"),
            ("kernel-get-pin = '/x'", "no --kernel-get"),
            ("udp-port = 1\nkernel-get = 'lo lo'", "twice"),
            ("udp-port = 1\nkernel-get = 'no-such-one'", "no interface no-such-one"),
            ("udp-port = 1\nkernel-get = 'lo'\nkernel-get-mode = 'fast'", "'fast'"),
            ("udp-port = 1\nkernel-get = 'lo'\nimage = '/x'", "choose one"),
            ("udp-port = 1\nkernel-get = 'lo'\nport = ['0', 'xdp:lo']", "one XDP program"),
            ("kernel-get = 'lo'\nport = ['0', 'xdp:lo']", "-U PORT"),
            ("udp-port = 1\nkernel-get = 'lo'\nkernel-get-pin = ''", "empty"),
        ] {
            let said = settings(toml).expect_err(toml);
            assert!(said.contains("--kernel-get") && said.contains(part), "{said}");
        }
    }

    #[test]
    fn what_is_printed_leads_to_the_same_settings() {
        let toml =
            "udp-port = 1\nkernel-get = 'lo'\nkernel-get-mode = 'generic'\nkernel-get-pin = '/sys/fs/bpf/x'";
        let first = settings(toml).unwrap();
        let of = first.kernel_get.as_ref().unwrap();
        assert_eq!((of.interfaces.as_slice(), of.mode), (&["lo".to_owned()][..], Mode::Generic));
        let second = Settings::of(&first.options(), 1).unwrap();
        assert_eq!(first.kernel_get, second.kernel_get);
        let none = settings("udp-port = 1\nkernel-get = 'none'").unwrap();
        assert_eq!(none.kernel_get, None);
    }

    #[test]
    fn no_partition_is_larger_than_the_program_follows() {
        let toml = "udp-port = 1\nkernel-get = 'lo'\nmemory-limit = '2g'";
        let config = settings(toml).unwrap().engine(1);
        let layout = micanite_engine::Layout::of(&config).unwrap();
        assert!(layout.partition_bytes <= micanite_kernel::IMAGE_BYTES_MAX);
        assert!(layout.partitions >= 4);
    }

    #[test]
    fn items_too_large_for_its_partitions_are_not_blamed_on_the_memory() {
        let with = |item: &str, memory: &str| {
            settings(&format!(
                "udp-port = 1\nkernel-get = 'lo'\nmemory-limit = '{memory}'\nmax-item-size = '{item}'"
            ))
        };
        let said = with("400m", "8g").unwrap_err();
        assert!(said.contains("--kernel-get") && !said.contains("(-m)"), "{said}");
        with("200m", "8g").expect("less than that");
        // Here the memory would be too small without it, too.
        let said = with("400m", "64m").unwrap_err();
        assert!(said.contains("(-m)") && !said.contains("--kernel-get"), "{said}");
    }
}
