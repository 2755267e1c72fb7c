//! The schemes that are read here, in one table, and what a scheme has to tell.

use super::Packed;
use super::awq::Awq;
use super::bitsandbytes::BitsAndBytes;
use super::compressed::Compressed;
use super::fp8::Fp8;
use super::gptq::Gptq;
use super::group::Group;
use super::mxfp4::Mxfp4;
use super::said::Said;
use crate::dtype::DType;
use crate::error::Result;

/// A scheme as a config describes it.
pub(super) trait Scheme: Send + Sync {
    /// How the parts of a weight are named.
    fn layouts(&self) -> &'static [Layout];

    /// The shape of the weight, as far as shapes tell it, and the scheme in at most 16 characters.
    fn look(&self, group: &Group<'_>) -> (Vec<usize>, String);

    /// The weight, once its parts are found to fit each other.
    fn open<'a>(&'a self, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>>;
}

/// Names of the parts of a weight, all of which begin alike.
pub(super) struct Layout {
    /// End of the name of the part with the codes.
    pub codes: &'static str,
    /// Where a plain weight may have that name too: the types that only codes have. A weight of any type is packed if
    /// another part is there.
    pub types: Option<&'static [DType]>,
    /// Ends of the names of the other parts, those among them that nothing is computed with.
    pub others: &'static [&'static str],
    /// End of the name of the weight.
    pub name: &'static str,
}

/// Reads a description; `None` if it asks for what is not read here.
type Read = fn(&Said) -> Option<Box<dyn Scheme>>;

/// The methods of `quantization_config` that are read, with how.
static SCHEMES: [(&str, Read); 6] = [
    ("fp8", |said| Fp8::of(said).map(boxed)),
    ("gptq", |said| Gptq::of(said).map(boxed)),
    ("awq", |said| Awq::of(said).map(boxed)),
    ("bitsandbytes", |said| BitsAndBytes::of(said).map(boxed)),
    ("compressed-tensors", |said| Compressed::of(said).map(boxed)),
    ("mxfp4", |said| Mxfp4::of(said).map(boxed)),
];

fn boxed(scheme: impl Scheme + 'static) -> Box<dyn Scheme> {
    Box::new(scheme)
}

/// The scheme that a config describes, if it is one that is read.
pub(super) fn of(said: &Said) -> Option<Box<dyn Scheme>> {
    let method = said.text("quant_method")?;
    SCHEMES.iter().find(|(name, _)| *name == method).and_then(|(_, read)| read(said))
}

/// Scales that are floats.
pub(super) const FLOATS: [DType; 3] = [DType::F16, DType::BF16, DType::F32];

/// Floats of one byte.
pub(super) const FP8: [DType; 4] = [DType::F8_E4M3, DType::F8_E5M2, DType::F8_E4M3FNUZ, DType::F8_E5M2FNUZ];
