//! Workers divided among several interfaces.

use super::*;

#[test]
fn two_nics_on_two_nodes_serve_the_workers_of_their_nodes() {
    let machine = machine(2, 4);
    let workers = workers(8, &machine);
    // Named the other way round.
    let Shares { of: shares, order } = share(&workers, &[Some(1), Some(0)]);
    assert_eq!(order, [1, 0], "a server makes these blocks if it is told so");
    let numbers = |share: &Vec<Worker>| share.iter().map(|w| w.number).collect::<Vec<_>>();
    assert_eq!(shares.iter().map(numbers).collect::<Vec<_>>(), [[4, 5, 6, 7], [0, 1, 2, 3]]);
    let plan = plan_for(&nic("eth0", 1, 8, 64), &shares[0], &machine);
    let rules = commands(&plan, Subject::Rules);
    assert_eq!(rules[0], "ethtool -N eth0 flow-type udp4 dst-port 9004 action 4");
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
}

#[test]
fn shares_are_even_and_near_where_they_can_be() {
    let numbers = |workers: &[Worker], nodes: &[Option<usize>]| -> Vec<Vec<usize>> {
        let shares = share(workers, nodes).of;
        let numbers = |share: &Vec<Worker>| share.iter().map(|w| w.number).collect();
        shares.iter().map(numbers).collect()
    };
    let two = machine(2, 6);
    // Six workers of node 0 and two of node 1.
    let eight = workers(8, &two);
    assert_eq!(numbers(&eight, &[Some(0), Some(1)]), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!(numbers(&eight, &[None, None]), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!(numbers(&eight[..3], &[Some(0), Some(0)]), [vec![0, 1], vec![2]]);
    assert_eq!(numbers(&eight[..1], &[None, None]), [vec![0], vec![]]);
    // Two of the workers of eth1 are on the other node, and it is said.
    let share = share(&eight, &[Some(0), Some(1)]).of.remove(1);
    let plan = plan_for(&nic("eth1", 1, 8, 64), &share, &two);
    assert!(plan.notes[0].contains("workers 4-5 are not on node 1"), "{:?}", plan.notes);
}

#[test]
fn an_interface_without_workers_is_left_alone() {
    let plan = plan_for(&nic("eth1", 0, 8, 64), &[], &machine(1, 4));
    assert_eq!(plan.steps, []);
    assert!(plan.notes[0].contains("more interfaces than workers"));
}

#[test]
fn workers_are_where_a_running_server_has_them() {
    let machine = machine(1, 4);
    let place = |name: &str, ip: &str| Place { name: name.into(), addresses: vec![ip.parse().unwrap()] };
    let places = [
        place("xdp:eth1", "10.0.1.2"),
        place("xdp:eth1", "10.0.1.2"),
        place("10.0.0.2", "10.0.0.2"),
        place("eth2", "10.0.2.2"),
    ];
    let interfaces = [("eth0", vec!["10.0.0.2".parse().unwrap()]), ("eth1", Vec::new())];
    let shares = of_server(&workers(4, &machine), &places, &interfaces);
    let numbers = |share: &Vec<Worker>| share.iter().map(|w| w.number).collect::<Vec<_>>();
    assert_eq!(shares.of.iter().map(numbers).collect::<Vec<_>>(), [vec![2], vec![0, 1]]);
    assert_eq!(shares.order, [1, 0]);
}
