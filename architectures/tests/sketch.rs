//! Every family can be sketched: built without a config that says anything, to compare the names of its tensors.

use scantling_architectures as _;
use scantling_core::config::Config;
use scantling_core::index::TensorIndex;
use scantling_core::registry::Registry;
use scantling_core::source::Dialect;
use scantling_formats as _;
use scantling_kernels as _;

#[test]
fn every_family_can_be_sketched_in_both_worlds() {
    for plugin in Registry::linked().unwrap().architectures() {
        for dialect in [Dialect::Hf, Dialect::Gguf] {
            let sketch = Config::nothing(dialect).sketch(true);
            let built = (plugin.build)(&sketch, &TensorIndex::default());
            let built = built.unwrap_or_else(|e| panic!("{} {dialect:?}: {e}", plugin.name));
            let rows = built.tensors().rows().iter();
            let named = rows.filter(|row| row.layer.is_some() && !row.local_name(dialect).is_empty());
            assert!(named.count() >= 8, "{} {dialect:?}", plugin.name);
        }
        // What is made up is never taken for what a config says.
        let nothing = Config::nothing(Dialect::Hf);
        assert!((plugin.build)(&nothing, &TensorIndex::default()).is_err(), "{}", plugin.name);
    }
}
