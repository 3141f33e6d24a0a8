use super::*;
use crate::report::evidence::Ran;
use crate::report::testing::{evidence, measured, ran, section};

#[test]
fn a_page_has_everything_in_it() {
    let evidence = evidence(vec![measured("one", ran())]);
    let page = page(&evidence, &[section("one"), section("two")]).unwrap();
    for part in [
        "Some CPU",
        "0123456789ab, with changes that are not committed",
        "<h2 id=\"one\">Latency against load</h2>",
        "20 us",
        "<svg",
        "data:text/csv",
        "1.23 M",
        "a &lt;b&gt;",
        "no real-time priority",
        "scripts/peer-memcached",
        "--again two",
        "24 us.",
        "raw/one/load.json",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let outside = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(
        !outside.contains("http://") && !outside.contains("https://"),
        "nothing is loaded from elsewhere"
    );
}

#[test]
fn the_raw_data_in_the_page_is_what_it_was_made_of() {
    let evidence = evidence(vec![measured("one", ran())]);
    let page = page(&evidence, &[section("one")]).unwrap();
    let (_, rest) = page.split_once("id=\"raw-data\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let read: crate::report::evidence::Evidence = serde_json::from_str(json).unwrap();
    assert_eq!(read.sections[0].commands[0].typed, ran().typed);
    assert_eq!(read.head.machine, evidence.head.machine);
}

#[test]
fn failures_and_missing_hardware_are_shown() {
    let failed = Ran { failed: Some("it ended with status 1: no <port>".to_owned()), json: None, ..ran() };
    let lacking = Ran { lacks: Some("there is no NIC".to_owned()), json: None, ..ran() };
    let evidence = evidence(vec![measured("one", failed), measured("two", lacking)]);
    let known = [section("one"), section("two")];
    let text = page(&evidence, &known).unwrap();
    assert!(text.contains("failed: it ended with status 1: no &lt;port&gt;"));
    assert!(text.contains("was not run: there is no NIC"));
    let shown = shown::all(&evidence, &known);
    assert!(shown[0].has_failed() && !shown[1].has_failed());
}
