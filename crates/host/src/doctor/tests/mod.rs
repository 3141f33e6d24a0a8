//! Judgements of machines that none of the tests runs on. `testdata/doctor` has their files, in the form in
//! which kernels and `ethtool` write them: put together from public documentation and listings, not recorded
//! on such machines.

mod machine;

use super::facts::NoFabric;
use super::report::{Finding, Report, State};
use super::{judge, print};
use machine::Recorded;

fn report(name: &str) -> Report {
    judge::judge(&Recorded::new(name).facts())
}

/// The finding of the section whose title begins so that has these words.
fn finding<'a>(report: &'a Report, section: &str, words: &str) -> &'a Finding {
    let mut sections = report.sections.iter();
    let section = sections.find(|it| it.title.starts_with(section)).expect("no such section");
    let mut findings = section.findings.iter();
    findings
        .find(|it| it.text.contains(words))
        .unwrap_or_else(|| panic!("nothing of '{words}' in {section:#?}"))
}

fn best(report: &Report) -> &str {
    report.verdict.best.as_ref().map_or("none", |port| &port.name)
}

/// The commands of the recipe, without the words between.
fn commands(report: &Report) -> Vec<&str> {
    let steps = report.verdict.recipe.iter().map(String::as_str);
    steps.filter(|step| !step.starts_with('#')).collect()
}

#[test]
fn a_laptop_has_a_port_that_is_not_worth_it() {
    let report = report("laptop");
    assert!(!report.verdict.works);
    // Neither has XDP in its driver; wireless, with the way out, is no better.
    assert!(best(&report).starts_with("xdp:"));
    assert!(report.verdict.text.contains("generic mode"));
    let lacking = finding(&report, "AF_XDP", "lacks CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF");
    assert_eq!(lacking.state, State::Missing);
    assert!(lacking.commands[0].starts_with("setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep "));
    let memory = finding(&report, "AF_XDP", "64 MiB of locked memory, 8 MiB at the least");
    assert_eq!(memory.state, State::Better);
    assert_eq!(finding(&report, "enp0s31f6", "XDP:").state, State::Note);
    finding(&report, "this machine", "8 CPUs on 4 physical cores");
    finding(&report, "lo", "nothing to bypass");
}

#[test]
fn a_container_gets_the_settings_of_its_engine() {
    let report = report("container");
    assert_eq!(best(&report), "xdp:eth0");
    assert!(!report.verdict.works);
    finding(&report, "this machine", "in a container (Docker)");
    finding(&report, "this machine", "a filter of system calls (seccomp) is on");
    let lacking = finding(&report, "AF_XDP", "root here lacks CAP_NET_ADMIN, CAP_BPF");
    assert_eq!(lacking.state, State::Missing);
    assert!(lacking.commands[0].contains("--cap-add BPF"), "{lacking:?}");
    let memory = finding(&report, "AF_XDP", "of locked memory");
    assert_eq!(memory.commands, lacking.commands);
    let is_run = |command: &&str| command.starts_with("docker run ");
    assert_eq!(commands(&report).into_iter().filter(is_run).count(), 1);
    finding(&report, "eth0: veth", "copy mode");
}

#[test]
fn a_vm_at_aws_needs_a_smaller_mtu_and_half_its_queues() {
    let report = report("aws");
    assert_eq!(finding(&report, "this machine", "Amazon EC2 c6i.xlarge").state, State::Note);
    assert_eq!(finding(&report, "ens5: ena", "native, copy mode").state, State::Fine);
    assert_eq!(finding(&report, "ens5", "MTU 9001").state, State::Missing);
    assert_eq!(finding(&report, "ens5", "XDP leaves 2").state, State::Missing);
    assert_eq!(finding(&report, "ens5", "no flow rules").state, State::Note);
    assert!(!report.verdict.works);
    assert_eq!(
        commands(&report),
        [
            "ip link set dev ens5 mtu 1500",
            "ethtool -L ens5 combined 2",
            "sysctl -w vm.nr_hugepages=528",
            "micanite ctl nic ens5 --xdp --native 11300 --cores 2 --apply",
            "micanite serve --bypass xdp:ens5 -t 2 -m 1024",
        ]
    );
}

#[test]
fn a_vm_at_google_works_for_a_user_with_the_capabilities() {
    let report = report("gcp");
    assert!(report.verdict.works, "{:#?}", report.verdict);
    assert_eq!(best(&report), "xdp:ens4");
    finding(&report, "AF_XDP", "this process has CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF");
    finding(&report, "ens4: gve", "native, zero copy (the driver says)");
    assert_eq!(commands(&report), ["micanite serve --bypass xdp:ens4 -t 4 -m 1024"]);
}

#[test]
fn at_azure_the_device_below_is_taken_not_the_synthetic_one() {
    let report = report("azure");
    assert_eq!(best(&report), "xdp:enP30832s1");
    finding(&report, "eth0: hv_netvsc", "name that one");
    // The addresses are those of the interface above.
    let address = finding(&report, "enP30832s1: mana", "its address is that of eth0");
    assert_eq!(address.state, State::Fine);
    assert_eq!(
        commands(&report).last(),
        Some(&"micanite serve --bypass xdp:enP30832s1 --bypass-ip 10.0.0.4/24 -t 4 -m 1024")
    );
}

#[test]
fn a_machine_of_two_nodes_takes_the_port_that_is_nobodys() {
    let report = report("metal");
    assert_eq!(best(&report), "xdp:ens1f0np0");
    assert!(report.verdict.works, "{:#?}", report.verdict);
    finding(&report, "this machine", "several NUMA nodes");
    finding(&report, "memory", "node 0: 4096 of 4096, node 1: 4090 of 4096");
    let foreign = finding(&report, "ens2f0np0", "an XDP program is attached already (id 41, native");
    assert_eq!(foreign.state, State::Missing);
    assert_eq!(finding(&report, "ens2f0np0", "MTU 9000").state, State::Missing);
    finding(&report, "ens1f0np0", "on NUMA node 0");
    assert_eq!(
        commands(&report),
        [
            "systemctl disable --now irqbalance",
            "ethtool -K ens1f0np0 ntuple on",
            "micanite serve --bypass xdp:ens1f0np0 -t 8 -m 1024",
        ]
    );
}

/// With several nodes the report has what a running server says of its partitions, without the table.
#[test]
fn partitions_are_listed_by_node() {
    let mut facts = Recorded::new("metal").facts();
    facts.memory_by_node = Some(Ok("2 NUMA nodes\nnode 0: 2 partitions (0 2)\n\n partition  mode\n".into()));
    let report = judge::judge(&facts);
    finding(&report, "memory", "the running server: node 0: 2 partitions (0 2)");
    assert!(!print::text(&report).contains("mode"), "{}", print::text(&report));
    facts.memory_by_node = Some(Err("no server".into()));
    finding(&judge::judge(&facts), "memory", "none answers: no server");
}

#[test]
fn a_device_that_dpdk_has_is_the_best_where_the_kernel_is_too_old_for_xdp() {
    let report = report("vfio");
    assert_eq!(best(&report), "dpdk:0000:00:04.0");
    assert!(report.verdict.works);
    assert_eq!(finding(&report, "AF_XDP", "too old").state, State::Impossible);
    finding(&report, "DPDK", "network device 0000:00:04.0: ready for DPDK");
    finding(&report, "eth0", "the host merges packets");
    assert!(commands(&report)[0].contains("--bypass dpdk:0000:00:04.0 --bypass-ip ADDRESS/PREFIX"));
}

#[test]
fn a_build_says_which_providers_of_one_sided_reads_it_has() {
    let without = report("laptop");
    let missing = finding(&without, "fabric", "without the feature libfabric");
    assert!(missing.commands[0].contains("libfabric-dev") && missing.commands[0].contains("--features"));
    let with = report("metal");
    finding(&with, "fabric", "built in: libfabric 1.17");
    for (provider, words) in [
        ("net;ofi_rxm", "reads complete without the target (by a thread of the provider); keys"),
        ("tcp;ofi_rxm", "reads wait for the target (for the threads that poll); keys"),
        ("shm", "neither keys nor ranges are checked"),
    ] {
        let promise = finding(&with, "fabric", &format!("{provider}: "));
        assert!(promise.state == State::Fine && promise.text.contains(words), "{promise:?}");
    }
    assert_eq!(finding(&with, "fabric", "efa: there is no such device").state, State::Note);
}

#[test]
fn a_library_that_cannot_be_loaded_is_not_a_build_without_it() {
    let mut facts = Recorded::new("metal").facts();
    let error = "libfabric cannot be loaded (Debian: libfabric1): libfabric.so.1: cannot open";
    facts.built.fabric = Err(NoFabric::NotLoaded(error.into()));
    let report = judge::judge(&facts);
    assert_eq!(finding(&report, "fabric", error).commands, ["apt-get install libfabric1"]);
    assert!(!print::text(&report).contains("without the feature"));
}

#[test]
fn the_report_is_complete_within_a_hundred_columns() {
    for name in ["laptop", "container", "aws", "gcp", "azure", "metal", "vfio"] {
        let report = report(name);
        let text = print::text(&report);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in text.lines() {
            // A command is not broken, as it is to be copied.
            let is_command = line.starts_with("            ");
            assert!(line.chars().count() <= 100 || is_command, "{name}: {line}");
        }
        for finding in report.sections.iter().flat_map(|it| &it.findings) {
            let words = finding.text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(&words), "{name}: {words}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["verdict"]["works"], report.verdict.works, "{name}");
    }
}
