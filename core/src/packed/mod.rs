//! Weights that several stored tensors make up together: codes in one, scales in another.

/// A matrix that is made out of several stored tensors, rows of it when they are needed.
pub trait Packed: Send + Sync {
    /// Number of rows, the outputs of a product.
    fn rows(&self) -> usize;

    /// Number of columns, the inputs of a product.
    fn cols(&self) -> usize;

    /// Bytes of the tensors it is made of.
    fn bytes(&self) -> u64;

    /// Rows from `first` on as f32, as many as `out` has room for, `[rows, cols]`. Panics past the last.
    fn widen(&self, first: usize, out: &mut [f32]);
}
