//! `logits`: what a model foretells, and how sure it is.

use super::{ids_of, note, note_context, report, written};
use crate::args::{LogitsArgs, LookArgs};
use crate::backend;
use crate::output::NewFile;
use crate::render::{json, text};
use crate::runner;
use crate::terminal::Screen;
use scantling_core::error::Result;
use scantling_core::logits::{self, Position};
use scantling_core::model::{BATCH, Options, Session};
use scantling_core::npy;
use scantling_core::registry::{Registry, Work};
use scantling_core::tokenizer::Tokenizer;

pub(super) fn run(
    registry: &Registry,
    args: &LogitsArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let backend = backend::one(&args.run.kernels, registry, Work::Exact)?;
    let model = runner::load(registry, &args.model, &args.run.overrides)?;
    let ids = ids_of(&model, &args.prompt)?;
    // Ids are enough where the model has no vocabulary that can be read.
    let tokenizer = Tokenizer::of(model.source.as_ref()).ok();
    let tokenizer = tokenizer.as_ref();
    note_context(look, &model, ids.len());
    runner::prepare(&model, |text| note(look, text))?;
    let kernel = backend.kernel.as_ref();
    let options = Options { context: ids.len(), kv: runner::kv_type(None, kernel), batch: BATCH };
    let mut session = Session::new(&model, kernel, options)?;
    let want = if args.all_positions { ids.len() } else { 1 };
    session.fits(&ids)?;
    let inputs = runner::inputs(&model, &args.model, &args.run.overrides);
    let mut file = args.npy.as_deref().map(|path| NewFile::create(path, &inputs)).transpose()?;
    if let Some(file) = &mut file {
        file.write(&npy::header(want, session.vocabulary()))?;
    }
    let mut positions: Vec<Position> = Vec::new();
    // What can be shown is, and the file is written: both help to find out what is wrong.
    let mut sound = Ok(());
    let fed = logits::feed_in_pieces(&mut session, &ids, want, |at, rows| {
        for (i, row) in rows.iter().enumerate() {
            let position = logits::position(at + i, ids[at + i], row, args.top);
            sound = std::mem::replace(&mut sound, Ok(()))
                .and_then(|()| logits::usable(position.position, position.id, row, position.logsumexp));
            positions.push(position);
            file.as_mut().map_or(Ok(()), |file| file.floats(row))?;
        }
        Ok(())
    });
    report(look, &backend);
    fed?;
    file.map_or(Ok(()), NewFile::finish)?;
    if args.run.list.wants_json() {
        json::compute::logits(screen, &model, &backend, session.vocabulary(), &ids, &positions, tokenizer);
    } else {
        written(text::compute::logits(
            screen,
            &model,
            &backend,
            session.vocabulary(),
            &positions,
            tokenizer,
        ))?;
    }
    sound.map(|()| 0)
}
