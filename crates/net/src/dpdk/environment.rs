//! DPDK's environment (EAL): started at the first port of a process, once.

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use super::shim::{micanite_dpdk_start, or_message};

/// Whether the environment was started, and what came of it: words to describe it, or the error.
/// It cannot be started twice, not even after a failure.
static STARTED: Mutex<Option<Result<String, String>>> = Mutex::new(None);

/// Memory without huge pages, besides four times what the first port needs: it is only taken from
/// the system as far as it is used.
const SMALL_PAGES_MEGABYTES: u64 = 512;

/// The version of DPDK that this process has loaded.
pub fn version() -> Option<String> {
    unsafe extern "C" {
        safe fn rte_version() -> *const c_char;
    }
    // SAFETY: it returns a string that is never freed.
    let version = unsafe { CStr::from_ptr(rte_version()) };
    Some(version.to_string_lossy().into_owned())
}

/// Memory in huge pages besides the buffers: DPDK's own, and what does not fill its page.
const HUGE_SPARE_BYTES: u64 = 32 << 20;

/// Starts the environment if it was not, for a device and the memory that its buffers take. Returns
/// what memory it has, in words.
pub(super) fn start(device: &str, memory_bytes: u64, further: &[String]) -> Result<String, String> {
    lock()
        .get_or_insert_with(|| {
            let (arguments, memory) = arguments(device, memory_bytes, further);
            // The thread that starts the environment is bound to CPUs: it is none of ours.
            let started = thread::spawn(move || {
                without_signals();
                call(&arguments)
            });
            let started = started.join();
            started.unwrap_or_else(|_| Err("the start of DPDK panicked".to_owned()))?;
            Ok(memory)
        })
        .clone()
}

/// The threads that the environment starts inherit this: signals are for the threads of the program.
fn without_signals() {
    let mut signals = SigSet::all();
    for fault in [
        Signal::SIGBUS,
        Signal::SIGSEGV,
        Signal::SIGILL,
        Signal::SIGFPE,
        Signal::SIGABRT,
    ] {
        signals.remove(fault);
    }
    // It fails for wrong arguments only.
    let _ = signals.thread_block();
}

/// Held while ports are opened and closed, too: DPDK's lists of them are not for two threads.
pub(super) fn lock() -> MutexGuard<'static, Option<Result<String, String>>> {
    match STARTED.lock() {
        Ok(started) => started,
        Err(poisoned) => poisoned.into_inner(),
    }
}

fn call(arguments: &[String]) -> Result<(), String> {
    let owned: Result<Vec<CString>, _> = arguments
        .iter()
        .map(|argument| CString::new(argument.as_str()))
        .collect();
    let owned = owned.map_err(|_| "an argument for DPDK has a zero byte".to_owned())?;
    // It keeps pointers to them, and exchanges their order.
    let mut pointers: Vec<*mut c_char> = owned.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as i32;
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak();
    // SAFETY: the strings and their array, which ends with a null, are never freed.
    or_message(|error, bytes| unsafe {
        micanite_dpdk_start(count, pointers.as_mut_ptr(), error, bytes)
    })
    .map_err(|why| format!("{why}; its arguments were: {}", arguments[1..].join(" ")))
}

/// The arguments, as far as `further` does not say otherwise, and the memory in words.
fn arguments(device: &str, memory_bytes: u64, further: &[String]) -> (Vec<String>, String) {
    let given = |names: &[&str]| {
        further.iter().any(|argument| {
            let name = argument.split('=').next().unwrap_or_default();
            names.contains(&name)
        })
    };
    let mut arguments = vec!["micanite".to_owned()];
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
    add(&["--no-telemetry"]);
    // All memory in one file, so that a memif client with zero-copy=yes can show it to its server.
    add(&["--single-file-segments"]);
    if !given(&["--log-level"]) {
        add(&["--log-level=warning"]);
        // It complains that there are no other processes of DPDK to speak to.
        add(&["--log-level=pmd.net.memif:error"]);
    }
    if !given(&["-l", "-c", "--lcores", "-s"]) {
        // One thread known to it, on all CPUs that we may use; ours make themselves known.
        add(&["--lcores", &format!("0@({})", allowed_cpus())]);
    }
    if !given(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        if is_pci(device) {
            add(&["-a", device]);
        } else if Path::new("/sys/bus/pci/devices").exists() {
            // No device but those that are asked for later: there is none at this address.
            add(&["-a", "ffff:ff:1f.7"]);
        } else {
            add(&["--no-pci"]);
        }
    }
    let huge_bytes = memory_bytes + HUGE_SPARE_BYTES;
    let huge = huge_bytes_free() >= huge_bytes;
    let memory_options = [
        "--no-huge",
        "--in-memory",
        "--file-prefix",
        "--proc-type",
        "-m",
        "--socket-mem",
        "--huge-dir",
    ];
    let memory = if given(&memory_options) {
        "memory as --dpdk-args says".to_owned()
    } else if huge {
        add(&["--in-memory"]);
        "huge pages".to_owned()
    } else {
        let megabytes = ((4 * memory_bytes) >> 20) + SMALL_PAGES_MEGABYTES;
        add(&["--no-huge", "--no-shconf", "-m", &megabytes.to_string()]);
        format!(
            "small pages, because {} MiB of huge pages are not free (sysctl vm.nr_hugepages)",
            huge_bytes >> 20
        )
    };
    arguments.extend(further.iter().cloned());
    (arguments, memory)
}

/// Whether a device is named by its address on the bus: `03:00.0`, `0000:03:00.0`.
pub(super) fn is_pci(device: &str) -> bool {
    let address = device.split(',').next().unwrap_or_default();
    let Some((bus, function)) = address.rsplit_once('.') else {
        return false;
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    bus.contains(':') && bus.split(':').all(digits) && digits(function)
}

/// A device as DPDK names it itself: an address on the bus with its domain, in small letters.
pub(super) fn full_name(device: &str) -> String {
    if !is_pci(device) {
        return device.to_owned();
    }
    let (address, arguments) = device.split_at(device.find(',').unwrap_or(device.len()));
    let domain = match address.matches(':').count() {
        1 => "0000:",
        _ => "",
    };
    format!("{domain}{}{arguments}", address.to_ascii_lowercase())
}

/// CPUs that this process may use: `0,2,3`.
fn allowed_cpus() -> String {
    let allowed = sched_getaffinity(Pid::from_raw(0));
    let numbers: Vec<String> = (0..CpuSet::count())
        .filter(|&cpu| matches!(&allowed, Ok(set) if set.is_set(cpu).unwrap_or(false)))
        .map(|cpu| cpu.to_string())
        .collect();
    match numbers.is_empty() {
        true => "0".to_owned(),
        false => numbers.join(","),
    }
}

/// Huge pages of any size that nobody has.
fn huge_bytes_free() -> u64 {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else {
        return 0;
    };
    let free = |size: fs::DirEntry| {
        let name = size.file_name().into_string().ok()?;
        let kibibytes: u64 = name
            .strip_prefix("hugepages-")?
            .strip_suffix("kB")?
            .parse()
            .ok()?;
        let pages = fs::read_to_string(size.path().join("free_hugepages")).ok()?;
        Some((pages.trim().parse::<u64>().ok()? * kibibytes) << 10)
    };
    sizes.flatten().filter_map(free).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_on_the_bus_are_told_from_virtual_devices() {
        for name in ["0000:03:00.0", "03:00.1", "0000:03:00.0,representor=0"] {
            assert!(is_pci(name), "{name}");
        }
        for name in ["net_memif0", "net_af_packet0,iface=eth0.5", "net_ring0", ""] {
            assert!(!is_pci(name), "{name}");
        }
    }

    #[test]
    fn devices_get_the_names_that_dpdk_lists_them_by() {
        for (name, full) in [
            ("03:00.1", "0000:03:00.1"),
            ("0000:0A:00.0", "0000:0a:00.0"),
            ("0A:00.0,Key=Value", "0000:0a:00.0,Key=Value"),
            ("net_memif0,socket=/A", "net_memif0,socket=/A"),
        ] {
            assert_eq!(full_name(name), full);
        }
    }

    #[test]
    fn what_is_given_is_not_said_twice() {
        let further = ["--log-level=debug", "-m", "64", "-l", "1"].map(str::to_owned);
        let (arguments, _) = arguments("net_null0", 1 << 20, &further);
        for name in ["--log-level=warning", "--lcores", "--no-huge"] {
            assert!(!arguments.iter().any(|argument| argument == name), "{name}");
        }
        assert!(arguments.ends_with(&further));
    }
}
