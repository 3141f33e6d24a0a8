//! DPDK's environment (EAL). It starts at the first port of a process, and only once.

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use super::shim::{micanite_dpdk_start, or_message};

/// Result of the start: a description, or the error. The environment cannot start twice, not even
/// after a failure.
static STARTED: Mutex<Option<Result<String, String>>> = Mutex::new(None);

/// Memory without huge pages, in addition to four times the need of the first port. The system
/// provides it only as it is used.
const SMALL_PAGES_MEGABYTES: u64 = 512;

/// Returns the version of DPDK that this process has loaded.
pub fn version() -> Option<String> {
    unsafe extern "C" {
        safe fn rte_version() -> *const c_char;
    }
    // SAFETY: it returns a string that is never freed.
    let version = unsafe { CStr::from_ptr(rte_version()) };
    Some(version.to_string_lossy().into_owned())
}

/// Huge pages besides the buffers: for DPDK itself, and for incomplete pages.
const HUGE_SPARE_BYTES: u64 = 32 << 20;

/// Starts the environment if it is not running, for a device and the memory of its buffers. Returns
/// a description of the memory.
pub(super) fn start(device: &str, memory_bytes: u64, further: &[String]) -> Result<String, String> {
    lock()
        .get_or_insert_with(|| {
            let (arguments, memory) = arguments(device, memory_bytes, further);
            // EAL binds the thread that starts it to CPUs, so it gets a thread of its own.
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

/// Blocks signals in the threads that the environment starts, which inherit this. Signals are
/// handled by the program's threads.
fn without_signals() {
    let mut signals = SigSet::all();
    for fault in [Signal::SIGBUS, Signal::SIGSEGV, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT] {
        signals.remove(fault);
    }
    // It fails only for wrong arguments.
    let _ = signals.thread_block();
}

/// Locks the environment. The lock is also held while ports are opened and closed, because DPDK's
/// lists of ports are not thread-safe.
pub(super) fn lock() -> MutexGuard<'static, Option<Result<String, String>>> {
    match STARTED.lock() {
        Ok(started) => started,
        Err(poisoned) => poisoned.into_inner(),
    }
}

fn call(arguments: &[String]) -> Result<(), String> {
    let owned: Result<Vec<CString>, _> =
        arguments.iter().map(|argument| CString::new(argument.as_str())).collect();
    let owned = owned.map_err(|_| "an argument for DPDK has a zero byte".to_owned())?;
    // EAL keeps pointers to the arguments, and reorders them.
    let mut pointers: Vec<*mut c_char> = owned.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as i32;
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak();
    // SAFETY: the strings and their array, which ends with a null, are never freed.
    or_message(|error, bytes| unsafe { micanite_dpdk_start(count, pointers.as_mut_ptr(), error, bytes) })
        .map_err(|why| format!("{why}; its arguments were: {}", arguments[1..].join(" ")))
}

/// Returns the arguments, unless `further` overrides them, and a description of the memory.
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
    // All memory is one file, so that a memif client with zero-copy=yes can share it with its
    // server.
    add(&["--single-file-segments"]);
    if !given(&["--log-level"]) {
        add(&["--log-level=warning"]);
        // It complains about missing other DPDK processes.
        add(&["--log-level=pmd.net.memif:error"]);
    }
    if !given(&["-l", "-c", "--lcores", "-s"]) {
        // EAL knows one thread of its own, on all allowed CPUs. The workers register themselves.
        add(&["--lcores", &format!("0@({})", allowed_cpus())]);
    }
    if !given(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        if is_pci(device) {
            add(&["-a", device]);
        } else if Path::new("/sys/bus/pci/devices").exists() {
            // Probes no device but those that are opened later: this address has none.
            add(&["-a", "ffff:ff:1f.7"]);
        } else {
            add(&["--no-pci"]);
        }
    }
    let huge_bytes = memory_bytes + HUGE_SPARE_BYTES;
    let huge = huge_bytes_free() >= huge_bytes;
    let memory_options =
        ["--no-huge", "--in-memory", "--file-prefix", "--proc-type", "-m", "--socket-mem", "--huge-dir"];
    let memory = if given(&memory_options) {
        "memory as in --bypass-dpdk-args (--dpdk-args of load)".to_owned()
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

/// Returns whether a device is named by its bus address: `03:00.0`, `0000:03:00.0`.
pub(super) fn is_pci(device: &str) -> bool {
    let address = device.split(',').next().unwrap_or_default();
    let Some((bus, function)) = address.rsplit_once('.') else {
        return false;
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    bus.contains(':') && bus.split(':').all(digits) && digits(function)
}

/// Returns DPDK's own name of a device: for a bus address the lower-case one with its domain.
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

/// Lists the CPUs that this process may use: `0,2,3`.
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

/// Returns the number of free bytes in huge pages of any size.
fn huge_bytes_free() -> u64 {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else {
        return 0;
    };
    let free = |size: fs::DirEntry| {
        let name = size.file_name().into_string().ok()?;
        let kibibytes: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages = fs::read_to_string(size.path().join("free_hugepages")).ok()?;
        Some((pages.trim().parse::<u64>().ok()? * kibibytes) << 10)
    };
    sizes.flatten().filter_map(free).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_addresses_differ_from_virtual_devices() {
        for name in ["0000:03:00.0", "03:00.1", "0000:03:00.0,representor=0"] {
            assert!(is_pci(name), "{name}");
        }
        for name in ["net_memif0", "net_af_packet0,iface=eth0.5", "net_ring0", ""] {
            assert!(!is_pci(name), "{name}");
        }
    }

    #[test]
    fn device_names_match_dpdks_list() {
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
    fn given_arguments_are_not_repeated() {
        let further = ["--log-level=debug", "-m", "64", "-l", "1"].map(str::to_owned);
        let (arguments, _) = arguments("net_null0", 1 << 20, &further);
        for name in ["--log-level=warning", "--lcores", "--no-huge"] {
            assert!(!arguments.iter().any(|argument| argument == name), "{name}");
        }
        assert!(arguments.ends_with(&further));
    }
}
