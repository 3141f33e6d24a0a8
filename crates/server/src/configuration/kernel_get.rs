//! `--kernel-get`: GETs answered in the kernel, before its network stack.

use std::path::PathBuf;

use micanite_net::bypass::PortName;
use micanite_net::xdp::{Interface, Mode};

use super::checks::{absolute, number};
use super::{Options, Settings, UsageError, Word};

const NAME: &str = "--kernel-get";
const PIN: &str = "--kernel-get-pin";
const SPREAD: &str = "--kernel-get-spread";
const MODE: &str = "--kernel-get-mode";
/// More than these are a mistake.
const INTERFACES_MAX: usize = 32;

/// Where and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelGetSettings {
    /// Interfaces whose datagrams are looked at.
    pub interfaces: Vec<String>,
    /// Where the program runs.
    pub mode: Mode,
    /// Where the memory of the image stays for the next start, absolute.
    pub pin: Option<PathBuf>,
    /// The load from which on other cores take over; 0: none do.
    pub spread_percent: u32,
}

fn wrong<T>(name: &str, what: impl std::fmt::Display) -> Result<T, UsageError> {
    Err(UsageError(format!("{name}: {what}")))
}

/// Checks them. The other settings are complete.
pub(super) fn kernel_get(
    options: &Options,
    settings: &Settings,
) -> Result<Option<KernelGetSettings>, UsageError> {
    let words = options.kernel_get.iter();
    let words = words.flat_map(|word| word.0.split([',', ' ']));
    let mut interfaces: Vec<String> = words.filter(|word| !word.is_empty()).map(Into::into).collect();
    interfaces.retain(|name| name != "none");
    let mode = match options.kernel_get_mode.as_ref().map(|word| word.0.as_str()) {
        None | Some("auto") => Mode::Auto,
        Some("native") => Mode::Native,
        Some("generic") => Mode::Generic,
        Some(text) => return wrong(MODE, format!("'{text}' is none of auto, native, generic")),
    };
    if interfaces.is_empty() {
        let others = [
            (MODE, &options.kernel_get_mode),
            (PIN, &options.kernel_get_pin),
            (SPREAD, &options.kernel_get_spread),
        ];
        return match others.iter().find(|(_, word)| word.is_some()) {
            Some((name, _)) => wrong(name, "there is no --kernel-get INTERFACE that it is for"),
            None => Ok(None),
        };
    }
    check(&interfaces, settings)?;
    if matches!(&options.kernel_get_pin, Some(Word(text)) if text.is_empty()) {
        return wrong(PIN, "the path is empty");
    }
    let pin = options.kernel_get_pin.as_ref();
    Ok(Some(KernelGetSettings {
        interfaces,
        mode,
        spread_percent: number(SPREAD, &options.kernel_get_spread, 0, 0, 99)? as u32,
        pin: pin.map(|Word(text)| absolute(text)),
    }))
}

/// What they cannot be with.
fn check(interfaces: &[String], settings: &Settings) -> Result<(), UsageError> {
    if interfaces.len() > INTERFACES_MAX {
        return wrong(NAME, format!("more than {INTERFACES_MAX} interfaces"));
    }
    if let Some(at) = (1..interfaces.len()).find(|at| interfaces[..*at].contains(&interfaces[*at])) {
        return wrong(NAME, format!("{} stands there twice", interfaces[at]));
    }
    let native = settings.native.as_ref().filter(|native| native.bypass.is_none());
    if settings.udp.is_none() && native.is_none() {
        return wrong(
            NAME,
            "it answers datagrams that the server takes from the kernel: -U PORT for memcached's, --native PORT for the \
             native protocol",
        );
    }
    if settings.image.is_some() {
        return wrong(
            NAME,
            "the program in the kernel reads maps of the kernel, and --image is files: choose one; --kernel-get-pin \
             DIRECTORY keeps what is stored, too",
        );
    }
    let ports = settings.bypass().map_or(&[][..], |bypass| &bypass.ports);
    for name in interfaces {
        let is_there = |port: &PortName| matches!(port, PortName::Xdp { interface } if interface == name);
        if ports.iter().any(|port| is_there(&port.name)) {
            return wrong(
                NAME,
                format!("an interface has one XDP program, and --port xdp:{name} has that of {name}"),
            );
        }
        Interface::find(name).or_else(|what| wrong(NAME, what))?;
    }
    Ok(())
}

/// The options that lead to these settings, into the others.
pub(super) fn write(settings: Option<&KernelGetSettings>, options: &mut Options) {
    let Some(settings) = settings else {
        return;
    };
    let names = settings.interfaces.iter().cloned().map(Word);
    options.kernel_get = names.collect();
    let mode = match settings.mode {
        Mode::Auto => "auto",
        Mode::Native => "native",
        Mode::Generic => "generic",
    };
    options.kernel_get_mode = Some(Word(mode.into()));
    let pin = settings.pin.as_ref();
    options.kernel_get_pin = pin.map(|path| Word(path.display().to_string()));
    options.kernel_get_spread = Some(Word(settings.spread_percent.to_string()));
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
