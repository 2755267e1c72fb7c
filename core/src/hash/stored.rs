//! Digests of tensors as they are stored.

use super::{Hashed, Hashes, Kind, Wanted, digest_of, largest_first};
use crate::check::Progress;
use crate::index::TensorInfo;
use crate::source::WeightSource;

/// SHA-256 of the bytes of each stored tensor, little-endian; those that make up a packed weight each by itself.
pub fn stored(
    source: &dyn WeightSource,
    wanted: Wanted<'_>,
    threads: usize,
    progress: &dyn Progress,
) -> Hashes {
    if let Some(none) = Hashes::new(Kind::Stored, false).refused(source, wanted) {
        return none;
    }
    let all = source.tensors().tensors().iter().flat_map(TensorInfo::stored);
    let tensors: Vec<&TensorInfo> = all.filter(|tensor| wanted(&[&tensor.name])).collect();
    let bytes = tensors.iter().fold(0u64, |n, t| n.saturating_add(t.byte_len()));
    progress.begin("hashing", bytes);
    let found = largest_first(
        threads,
        &tensors,
        |tensor| tensor.byte_len(),
        |tensor| source.bytes(tensor).map(|bytes| digest_of(&bytes, progress)),
    );
    progress.end();
    let mut hashes = Hashes { bytes, ..Hashes::new(Kind::Stored, false) };
    for (tensor, digest) in tensors.into_iter().zip(found) {
        match digest {
            Ok(digest) => hashes.tensors.push(Hashed {
                name: tensor.name.clone(),
                dtype: tensor.dtype.to_string(),
                shape: tensor.shape.clone(),
                digest,
            }),
            Err(error) => hashes.leave_out(&tensor.name, error.to_string(), true),
        }
    }
    hashes.sort();
    hashes
}
