//! rcutorture's model: the harness fails what is broken, and nothing else.

use treercu::sim::Control;
use treercu::torture::{World, run};

#[test]
fn trivial() {
    let report = run("TRIVIAL", 3.0, World::Host, 1, &Control::default()).unwrap();
    println!("{}", report.text);
    println!("{:?}", report.counters);
    assert_eq!(report.errors(), 0);
}

#[test]
fn busted() {
    let report = run("busted", 1.0, World::Host, 1, &Control::default()).unwrap();
    println!("{}", report.text);
    println!("{:?}", report.counters);
    assert!(report.errors() > 0);
}
