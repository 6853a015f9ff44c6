//! The configuration: defaults, limits, names.

use treercu::config::{Config, Value, catalogue};

#[test]
fn every_tunable_has_a_value_in_force() {
    let config = Config::new();
    for spec in catalogue() {
        assert_eq!(config.get(spec.name).unwrap(), spec.default_for(&config));
    }
    assert_eq!(config.effective().len(), catalogue().len());
    assert_eq!(config.get("hz").unwrap(), Value::Int(250));
}
