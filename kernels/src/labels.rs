//! Names of stored bytes, for kernels that report.

use scantling_core::matrix::Matrix;
use std::collections::BTreeMap;

/// Where named bytes start and end.
#[derive(Default)]
pub(crate) struct Labels(BTreeMap<usize, (usize, String)>);

impl Labels {
    /// Notes what some bytes are called.
    pub(crate) fn insert(&mut self, data: &[u8], name: &str) {
        let at = data.as_ptr().addr();
        self.0.insert(at, (at + data.len(), name.to_owned()));
    }

    /// The name of the bytes that a matrix lies in.
    pub(crate) fn of(&self, w: Matrix<'_>) -> Option<&str> {
        let at = w.data().as_ptr().addr();
        let (_, (end, name)) = self.0.range(..=at).next_back()?;
        (at < *end).then_some(name)
    }
}
