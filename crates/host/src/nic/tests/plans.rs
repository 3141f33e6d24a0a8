//! Plans for interfaces of several kinds, as the lines that would be printed.

use super::*;

#[test]
fn a_nic_of_many_queues_keeps_everything_else_apart() {
    let machine = machine(1, 4);
    let plan = plan_for(&nic("eth0", 0, 4, 64), &workers(2, &machine), &machine);
    assert_eq!(queues(&plan), [2, 3]);
    assert_eq!((plan.layout.queues, plan.layout.others), (4, 2));
    assert_eq!(commands(&plan, Subject::Queues), [""; 0]);
    assert_eq!(commands(&plan, Subject::RuleSwitch), ["ethtool -K eth0 ntuple on"]);
    assert_eq!(
        commands(&plan, Subject::Rules),
        [
            "ethtool -N eth0 flow-type udp4 dst-port 9000 action 2",
            "ethtool -N eth0 flow-type udp6 dst-port 9000 action 2",
            "ethtool -N eth0 flow-type udp4 dst-port 9001 action 3",
            "ethtool -N eth0 flow-type udp6 dst-port 9001 action 3",
        ]
    );
    assert_eq!(commands(&plan, Subject::Spreading), ["ethtool -X eth0 equal 2"]);
    // Queue 2 has its interrupts on CPU 0 already, where its worker is.
    assert_eq!(
        commands(&plan, Subject::Interrupts),
        [
            "echo 1 > /proc/irq/103/smp_affinity_list",
            "echo 2 > /proc/irq/100/smp_affinity_list",
            "echo 3 > /proc/irq/101/smp_affinity_list",
        ]
    );
    assert_eq!(
        commands(&plan, Subject::Senders),
        [
            "echo 1 > /sys/class/net/eth0/queues/tx-2/xps_cpus",
            "echo 2 > /sys/class/net/eth0/queues/tx-3/xps_cpus",
            "echo 4 > /sys/class/net/eth0/queues/tx-0/xps_cpus",
            "echo 8 > /sys/class/net/eth0/queues/tx-1/xps_cpus",
        ]
    );
    assert!(plan.steps.iter().all(|step| step.cannot.is_none()));
}

#[test]
fn workers_with_af_xdp_ports_have_the_queues_of_their_numbers() {
    let machine = machine(1, 4);
    let workers = workers(2, &machine);
    let plan = plan_with(&nic("eth0", 0, 4, 64), &workers, &machine, true);
    assert_eq!(queues(&plan), [0, 1]);
    assert_eq!((plan.layout.queues, plan.layout.others), (2, 0));
    assert_eq!(commands(&plan, Subject::Queues), ["ethtool -L eth0 combined 2"]);
    let rules = commands(&plan, Subject::Rules);
    assert_eq!(rules[2], "ethtool -N eth0 flow-type udp4 dst-port 9001 action 1");
}

#[test]
fn nothing_is_left_to_do_when_all_has_been_done() {
    for (count, cpus) in [(1, 2), (2, 4), (3, 8), (4, 4)] {
        let machine = machine(1, cpus);
        let workers = workers(count, &machine);
        let before = nic("eth0", 0, 8, 64);
        let first = plan_for(&before, &workers, &machine);
        assert!(first.steps.iter().any(|step| !step.actions.is_empty()));
        let second = plan_for(&after(before, &first, &machine), &workers, &machine);
        assert_eq!(first.layout, second.layout);
        for step in &second.steps {
            assert_eq!(step.actions, [], "{count} of {cpus}");
            assert_eq!((&step.cannot, &step.later), (&None, &None));
        }
    }
}

#[test]
fn interrupts_wait_for_the_queues() {
    let machine = machine(1, 4);
    let plan = plan_for(&nic("eth0", 0, 16, 64), &workers(3, &machine), &machine);
    assert_eq!(queues(&plan), [1, 2, 3]);
    let queues = &step(&plan, Subject::Queues).actions[0];
    assert_eq!(queues.command.to_string(), "ethtool -L eth0 combined 4");
    let back = queues.back.as_ref().unwrap().to_string();
    assert_eq!(back, "ethtool -L eth0 combined 16");
    assert_eq!(commands(&plan, Subject::Interrupts), [""; 0]);
    assert!(step(&plan, Subject::Interrupts).later.is_some());
    assert_eq!(commands(&plan, Subject::Spreading), ["ethtool -X eth0 equal 1"]);
    assert_eq!(commands(&plan, Subject::Senders).len(), 4);
}

#[test]
fn workers_share_where_there_are_fewer_queues() {
    let machine = machine(1, 4);
    let plan = plan_for(&nic("eth0", 0, 2, 2), &workers(4, &machine), &machine);
    assert_eq!(queues(&plan), [0, 1, 0, 1]);
    let reason = step(&plan, Subject::Queues).cannot.as_ref().unwrap();
    assert!(reason.contains("4 workers share 2 queues"), "{reason}");
    assert_eq!(
        commands(&plan, Subject::Interrupts),
        ["echo 0,2 > /proc/irq/100/smp_affinity_list", "echo 1,3 > /proc/irq/101/smp_affinity_list",]
    );
    assert_eq!(commands(&plan, Subject::Rules).len(), 8);
    assert_eq!(commands(&plan, Subject::Spreading), [""; 0]);
}

#[test]
fn without_flow_rules_everything_stays_spread() {
    let machine = machine(1, 8);
    let facts =
        InterfaceFacts { rules: Err(NOT_SUPPORTED.into()), ntuple: Some(NEVER), ..nic("eth0", 0, 8, 8) };
    let plan = plan_for(&facts, &workers(2, &machine), &machine);
    assert_eq!((plan.layout.queues, plan.layout.others), (2, 0));
    let reason = step(&plan, Subject::Rules).cannot.as_ref().unwrap();
    assert!(reason.contains(NOT_SUPPORTED) && reason.contains("locality"), "{reason}");
    assert_eq!(commands(&plan, Subject::Spreading), [""; 0]);
    assert!(plan.steps.iter().all(|step| step.subject != Subject::RuleSwitch));
    assert!(plan.notes.iter().any(|note| note.contains("rx-flow-hash udp4 sdfn")));
}

#[test]
fn rules_of_others_are_left_alone() {
    let machine = machine(1, 2);
    let rule = |id, port, queue| PortRule { id, family: Family::Udp4, port, queue };
    let facts = InterfaceFacts {
        rules: Ok(vec![rule(7, 9000, 1), rule(8, 9001, 1), rule(9, 53, 0)]),
        ..nic("eth0", 0, 2, 2)
    };
    let plan = plan_for(&facts, &workers(2, &machine), &machine);
    assert_eq!(
        commands(&plan, Subject::Rules),
        [
            "ethtool -N eth0 flow-type udp6 dst-port 9000 action 0",
            "ethtool -N eth0 flow-type udp6 dst-port 9001 action 1",
        ]
    );
    let reason = step(&plan, Subject::Rules).cannot.as_ref().unwrap();
    assert!(reason.contains("micanite ctl nic eth0 --undo 7"), "{reason}");
}

#[test]
fn veth_sets_its_queues_apart_and_has_neither_rules_nor_interrupts() {
    let machine = machine(1, 2);
    let plan = plan_for(&veth(), &workers(2, &machine), &machine);
    assert_eq!(commands(&plan, Subject::Queues), ["ethtool -L veth0 rx 2 tx 2"]);
    assert_eq!(commands(&plan, Subject::Offload), ["ethtool -K veth0 gro on"]);
    assert!(step(&plan, Subject::Rules).cannot.is_some());
    assert!(step(&plan, Subject::Interrupts).cannot.is_some());
    assert_eq!(commands(&plan, Subject::Senders).len(), 2);
    assert!(plan.notes[0].contains("threaded"));
}

#[test]
fn the_loopback_has_nothing_to_set() {
    let facts = InterfaceFacts {
        driver: None,
        kind: Kind::Loopback,
        queues: 1,
        channels: Err(NOT_SUPPORTED.into()),
        gro: Some(ON),
        transmit_cpus: BTreeMap::new(),
        ..veth()
    };
    let machine = machine(1, 2);
    let plan = plan_for(&facts, &workers(2, &machine), &machine);
    assert!(plan.steps.iter().all(|step| step.actions.is_empty()));
    assert!(plan.notes[0].contains("loopback"));
}

#[test]
fn a_stacked_interface_names_the_ones_below() {
    let facts = InterfaceFacts { kind: Kind::Above(vec!["eth0".into(), "eth1".into()]), ..veth() };
    let machine = machine(1, 2);
    let plan = plan_for(&facts, &workers(1, &machine), &machine);
    assert!(plan.notes[0].contains("eth0 eth1"));
}

#[test]
fn queues_that_cannot_be_changed_are_used_as_they_are() {
    let machine = machine(1, 8);
    let facts = InterfaceFacts { channels: Err("refused".into()), ..nic("eth0", 0, 8, 8) };
    let plan = plan_for(&facts, &workers(2, &machine), &machine);
    assert_eq!(queues(&plan), [6, 7]);
    assert_eq!(commands(&plan, Subject::Queues), [""; 0]);
    assert_eq!(commands(&plan, Subject::Spreading), ["ethtool -X eth0 equal 6"]);
}
