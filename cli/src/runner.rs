//! What the commands that run a model share: opening it, bringing its weights into memory, how its cache is stored.

use crate::args::OverrideArgs;
use scantling_core::cache::KvType;
use scantling_core::check::Request;
use scantling_core::error::Result;
use scantling_core::kernel::{Kernel, Precision};
use scantling_core::model::Model;
use scantling_core::paging::{self, Prepared};
use scantling_core::registry::Registry;
use std::path::Path;

/// Opens a model that is sound, and brings its weights into memory.
pub fn open(registry: &Registry, path: &Path, overrides: &OverrideArgs) -> Result<(Model, Prepared)> {
    let request = Request {
        architecture: overrides.arch.clone(),
        config: overrides.config.clone(),
        ..Request::default()
    };
    let model = Model::load(registry, path, &request)?;
    model.decoder()?;
    let prepared = paging::prepare(model.source.files())?;
    Ok((model, prepared))
}

/// How keys and values are stored: as was asked, or without loss where the kernel is exact.
pub fn kv_type(asked: Option<KvType>, kernel: &dyn Kernel) -> KvType {
    let usual = if kernel.precision() == Precision::Exact { KvType::F32 } else { KvType::F16 };
    asked.unwrap_or(usual)
}
