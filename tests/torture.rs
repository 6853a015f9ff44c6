//! rcutorture's model: the harness fails what is broken, and nothing else.

use treercu::sim::Control;
use treercu::torture::{World, run};

#[test]
fn sim() {
    for name in ["TREE01","TREE02", "TREE03", "TREE04", "TREE05", "TREE06","TREE07","TREE08", "TREE09","TREE10", "IDLE", "BUSTED"] {
        let t = std::time::Instant::now();
        let report = run(name, 5.0, World::Sim, 1, &Control::default()).unwrap();
        println!("{}", report.text);
        println!("{:?}", report.counters);
        println!("WALL {name} {:?} errors {}", t.elapsed(), report.errors());
    }
}
