//! The plugin crates of this program. A crate that is named nowhere in the code is left out by the linker, so
//! each stands here; this is the only list of them.

use scantling_architectures as _;
use scantling_formats as _;
use scantling_kernels as _;
