//! The KV cache: keys and values of every position seen, for each layer.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix::{Matrix, Rows, floats_mut};
use crate::paging::{self, HugeBuf};
use half::slice::HalfFloatSliceExt;

/// What a layer keeps of one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCache {
    /// Numbers of all key heads together.
    pub key: usize,
    /// Numbers of all value heads together.
    pub value: usize,
}

/// How the numbers of a cache are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvType {
    /// As they are computed.
    F32,
    /// In half the memory, rounded to 11 bits.
    F16,
}

impl KvType {
    /// The element type.
    pub fn dtype(self) -> DType {
        match self {
            KvType::F32 => DType::F32,
            KvType::F16 => DType::F16,
        }
    }
}

/// Keys and values of the positions seen so far.
pub struct KvCache {
    kind: KvType,
    layers: Vec<(Store, Store)>,
    len: usize,
    capacity: usize,
}

/// `[capacity, width]`, filled from the front.
struct Store {
    data: HugeBuf,
    width: usize,
}

impl KvCache {
    /// Room for so many positions. Memory is taken as it fills; more than is free is refused at once.
    pub fn new(layers: &[LayerCache], kind: KvType, capacity: usize) -> Result<KvCache> {
        let refused = |takes: String| {
            Error::Usage(format!("a context of {capacity} tokens takes {takes}: ask for a smaller one"))
        };
        let bytes = KvCache::bytes(layers, kind, capacity);
        let bytes = bytes.ok_or_else(|| refused("more memory than can be named".into()))?;
        if let Some(free) = paging::available().filter(|free| bytes as u64 > *free) {
            return Err(refused(format!("{bytes} bytes for keys and values, but {free} are free")));
        }
        let store = |width: usize| {
            let data = HugeBuf::zeroed(width * capacity * kind.dtype().block_bytes())?;
            Ok::<_, Error>(Store { data, width })
        };
        let pair = |l: &LayerCache| Ok((store(l.key)?, store(l.value)?));
        Ok(KvCache { kind, layers: layers.iter().map(pair).collect::<Result<_>>()?, len: 0, capacity })
    }

    /// Bytes that so many positions take; `None` if no machine could hold them.
    pub fn bytes(layers: &[LayerCache], kind: KvType, positions: usize) -> Option<usize> {
        let widths = layers.iter().try_fold(0usize, |sum, l| sum.checked_add(l.key)?.checked_add(l.value));
        widths?.checked_mul(positions)?.checked_mul(kind.dtype().block_bytes())
    }

    /// Positions seen.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none has been seen.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Positions there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How its numbers are stored.
    pub fn kind(&self) -> KvType {
        self.kind
    }

    /// Forgets all but the first positions.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Writes a layer's keys and values of the next positions behind those seen, which stay as many until
    /// [`advance`](Self::advance). Panics without room.
    pub(crate) fn write(&mut self, layer: usize, k: Rows<'_>, v: Rows<'_>) {
        let (at, kind) = (self.len, self.kind);
        assert!(at + k.rows() <= self.capacity, "a cache of {} positions", self.capacity);
        let (keys, values) = &mut self.layers[layer];
        keys.write(at, k, kind);
        values.write(at, v, kind);
    }

    /// A layer's keys and values of the positions seen and the next `more`.
    pub(crate) fn view(&self, layer: usize, more: usize) -> (Matrix<'_>, Matrix<'_>) {
        let (keys, values) = &self.layers[layer];
        (keys.view(self.len + more, self.kind), values.view(self.len + more, self.kind))
    }

    /// Counts positions as seen that every layer has written.
    pub(crate) fn advance(&mut self, n: usize) {
        self.len += n;
    }
}

impl Store {
    fn write(&mut self, at: usize, rows: Rows<'_>, kind: KvType) {
        assert_eq!(rows.cols(), self.width, "what the architecture said of its cache");
        let row_bytes = self.width * kind.dtype().block_bytes();
        for (i, row) in rows.iter().enumerate() {
            let bytes = &mut self.data[(at + i) * row_bytes..][..row_bytes];
            match kind {
                KvType::F32 => floats_mut(bytes).copy_from_slice(row),
                KvType::F16 => halves(row, bytes),
            }
        }
    }

    fn view(&self, positions: usize, kind: KvType) -> Matrix<'_> {
        let bytes = positions * self.width * kind.dtype().block_bytes();
        Matrix::new(kind.dtype(), positions, self.width, &self.data[..bytes]).expect("whole rows")
    }
}

/// Rounds to f16, little-endian.
fn halves(row: &[f32], bytes: &mut [u8]) {
    let mut some = [half::f16::ZERO; 64];
    for (row, bytes) in row.chunks(some.len()).zip(bytes.chunks_mut(2 * 64)) {
        let some = &mut some[..row.len()];
        some.convert_from_f32_slice(row);
        for (half, bytes) in some.iter().zip(bytes.chunks_exact_mut(2)) {
            bytes.copy_from_slice(&half.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant;

    #[test]
    fn what_is_written_is_read_back() {
        let layers = [LayerCache { key: 70, value: 3 }; 2];
        let numbers: Vec<f32> = (0..2 * 73).map(|i| i as f32 * 0.25 - 9.0).collect();
        let k = Rows::new(&numbers[..140], 2, 70);
        let v = Rows::new(&numbers[140..], 2, 3);
        for kind in [KvType::F32, KvType::F16] {
            let mut cache = KvCache::new(&layers, kind, 5).unwrap();
            cache.write(1, k, v);
            cache.advance(2);
            cache.write(1, k.rows_at(0..1), v.rows_at(0..1));
            let (keys, values) = cache.view(1, 1);
            assert_eq!((keys.rows(), keys.cols(), values.rows()), (3, 70, 3));
            let mut row = vec![0.0; 70];
            for (position, from) in [(0, 0), (1, 1), (2, 0)] {
                quant::decode(kind.dtype(), keys.row(position), &mut row).unwrap();
                assert_eq!(row, k.row(from));
                quant::decode(kind.dtype(), values.row(position), &mut row[..3]).unwrap();
                assert_eq!(row[..3], *v.row(from));
            }
            cache.truncate(1);
            assert_eq!(cache.len(), 1);
        }
    }

    #[test]
    fn more_than_can_be_named_is_refused() {
        let layers = [LayerCache { key: usize::MAX / 2, value: 8 }];
        assert_eq!(KvCache::bytes(&layers, KvType::F16, 3), None);
        assert!(KvCache::new(&layers, KvType::F32, 3).is_err());
    }
}
