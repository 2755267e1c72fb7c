//! Model families, one file each. Each registers itself.
//!
//! A program that links this crate must name it (`use scantling_architectures as _;`), or the linker drops it.

#![forbid(unsafe_code)]

// A module for each file beside this one, and its plugin as a public constant.
include!(concat!(env!("OUT_DIR"), "/families.rs"));
