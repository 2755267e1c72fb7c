//! One tensor for people: its numbers, its bytes, or a block taken apart.

use super::numbers::{self, Style};
use super::{hanging, strong};
use crate::commands::{Shown, Wrote};
use crate::render::words::{shape, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::error::Result;
use scantling_core::quant::fields::Numbers;
use scantling_core::show::{Block, Found, Values, View};
use std::fmt::{self, Write};

/// Bytes that are shown without a cut, and at each edge where there are more.
const BYTES: usize = 1024;
const EDGE: usize = 256;

/// Bytes on a line.
const LINE: usize = 16;

/// Everything that was asked for. The outer result is that of reading, the inner one that of writing.
pub fn shown(
    screen: &mut Screen<'_>,
    found: &Found<'_>,
    view: &View<'_>,
    shown: &Shown<'_>,
    wrote: &[Wrote<'_>],
) -> Result<fmt::Result> {
    if head(screen, found, view, shown).is_err() {
        return Ok(Err(fmt::Error));
    }
    let all = view.tensor().elements();
    let last = match shown {
        Shown::Numbers { full } => {
            let _ = writeln!(screen);
            let count = numbers::write(screen, view, *full, 0)?;
            let taken = view.selection().elements();
            let more = if taken > count && !*full { "; --full shows all that are taken" } else { "" };
            format!("{} of {} numbers shown{more}", thousands(count), thousands(all))
        }
        Shown::Bytes { full } => {
            let _ = writeln!(screen);
            let (count, of) = bytes(screen, view, *full)?;
            let total = thousands(view.tensor().byte_len());
            let more = if of > count { "; --full shows all that are taken" } else { "" };
            format!("{} of {total} bytes shown{more}", thousands(count as u64))
        }
        Shown::Block(one) => {
            let _ = block(screen, view, one);
            let blocks = all / (one.elements.len() as u64).max(1);
            format!("1 of {} blocks shown", thousands(blocks))
        }
        Shown::Nothing => {
            format!("{} of {} numbers taken", thousands(view.selection().elements()), thousands(all))
        }
    };
    Ok(end(screen, &last, wrote))
}

fn head(screen: &mut Screen<'_>, found: &Found<'_>, view: &View<'_>, shown: &Shown<'_>) -> fmt::Result {
    let tensor = view.tensor();
    strong(screen, &escape(&tensor.name))?;
    let order = match (view.is_big_endian(), shown) {
        (false, _) => "",
        (true, Shown::Block(_)) => "  big-endian, turned into little-endian here",
        (true, _) => "  big-endian",
    };
    writeln!(screen, "  {} {}{order}", escape(&tensor.dtype.to_string()), self::shape(&tensor.shape))?;
    for note in &found.notes {
        write!(screen, "  ")?;
        hanging(screen, &escape(note), 2, 4)?;
    }
    match tensor.bytes.clone() {
        Some(bytes) => writeln!(
            screen,
            "  in {} at byte {} ({:#x}), {} bytes",
            escape(view.file_of(tensor)),
            bytes.start,
            bytes.start,
            bytes.end.saturating_sub(bytes.start)
        )?,
        None => {
            for part in &tensor.parts {
                let at = part.bytes.as_ref().map_or(0, |bytes| bytes.start);
                let (name, dtype) = (escape(&part.name), part.dtype.to_string());
                let file = escape(view.file_of(part));
                let shape = shape(&part.shape);
                writeln!(screen, "  {name}  {} {shape} in {file} at byte {at} ({at:#x})", escape(&dtype))?;
            }
        }
    }
    taken(screen, view)
}

/// What is taken of the tensor, where it is not all of it: one element by its place, more by their lengths.
fn taken(screen: &mut Screen<'_>, view: &View<'_>) -> fmt::Result {
    let selection = view.selection();
    if selection.is_all(&view.tensor().shape) && selection.single().is_none() {
        return Ok(());
    }
    let of_block = view.dtype().is_some_and(|dtype| dtype.block_elements() > 1);
    let (what, first) = match selection.single() {
        Some(places) if of_block => (format!("element {}", shape(&places)), "in the block"),
        Some(places) => (format!("element {}", shape(&places)), ""),
        None => (shape(&selection.shape()), "the first"),
    };
    write!(screen, "  taken: {what}")?;
    match view.first_at() {
        Some(at) if first.is_empty() => writeln!(screen, ", at byte {at} ({at:#x})"),
        Some(at) => writeln!(screen, ", {first} at byte {at} ({at:#x})"),
        None => writeln!(screen),
    }
}

fn end(screen: &mut Screen<'_>, last: &str, wrote: &[Wrote<'_>]) -> fmt::Result {
    writeln!(screen)?;
    for file in wrote {
        writeln!(screen, "wrote {} to {}", file.what, escape(&file.path.display().to_string()))?;
    }
    writeln!(screen, "{last}; nothing else of the model was looked at")
}

/// Lines of bytes with their offsets in the file; how many were shown, of how many.
fn bytes(screen: &mut Screen<'_>, view: &View<'_>, full: bool) -> Result<(usize, usize)> {
    let data = view.stored()?;
    let start = view.at().unwrap_or(0);
    let mut total = 0usize;
    view.each_run(false, &mut |run| {
        total = total.saturating_add(run.len());
        Ok(())
    })?;
    let cut = !full && total > BYTES;
    let (mut at, mut count, mut marked) = (0usize, 0usize, false);
    view.each_run(false, &mut |run| {
        let end = run.end;
        for line in run.step_by(LINE).map(|from| from..end.min(from.saturating_add(LINE))) {
            let some = data.get(line.clone()).unwrap_or_default();
            let hidden = cut && at >= EDGE && at < total.saturating_sub(EDGE);
            at = at.saturating_add(some.len());
            if hidden {
                if !std::mem::replace(&mut marked, true) {
                    let _ = writeln!(screen, "  ...");
                }
                continue;
            }
            count = count.saturating_add(some.len());
            let offset = start.saturating_add(line.start as u64);
            let _ = writeln!(screen, "  {offset:>12} {offset:#010x}  {}", hex(some));
        }
        Ok(())
    })?;
    Ok((count.min(total), total))
}

/// Bytes as hexadecimal digits, a space between them.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(3));
    for (i, byte) in bytes.iter().enumerate() {
        let _ = write!(text, "{}{byte:02x}", if i == 0 { "" } else { " " });
    }
    text
}

/// Each field with its bytes and what they hold, what is made of them, and the elements.
fn block(screen: &mut Screen<'_>, view: &View<'_>, block: &Block<'_>) -> fmt::Result {
    let name = block.dtype.name();
    let cols = view.tensor().shape.last().copied().unwrap_or(1).max(1);
    let (row, col) = (block.first / cols, block.first % cols);
    writeln!(screen, "  block {} of {name}, at byte {} ({:#x})", block.number, block.at, block.at)?;
    let past = col.saturating_add(block.elements.len());
    writeln!(screen, "  elements {col}..{past} of row {row}\n")?;
    for field in &block.fields {
        let end = field.at.saturating_add(field.raw.len());
        let bytes = format!("bytes {}..{end}", field.at);
        write!(screen, "  ")?;
        strong(screen, field.name)?;
        let gap = 18usize.saturating_sub(field.name.len());
        let mut lines = field.raw.chunks(LINE).map(hex);
        writeln!(screen, "{:gap$}{bytes:16} {}", "", lines.next().unwrap_or_default())?;
        for line in lines {
            writeln!(screen, "{:37}{line}", "")?;
        }
        for (what, numbers) in &field.lists {
            list(screen, what, numbers)?;
        }
    }
    writeln!(screen)?;
    write!(screen, "  ")?;
    hanging(screen, &format!("element = {}", block.layout.formula), 2, 4)?;
    rows(screen, &Values::F32(block.elements.clone()), 4, 8)
}

fn list(screen: &mut Screen<'_>, what: &str, numbers: &Numbers) -> fmt::Result {
    let count = if numbers.len() == 1 { String::new() } else { format!(" ({})", numbers.len()) };
    write!(screen, "    {what}{count}")?;
    let (values, each) = match numbers {
        Numbers::Whole(all) => (Values::Signed(all.iter().map(|n| i64::from(*n)).collect()), 16),
        Numbers::Real(all) => (Values::F32(all.clone()), 8),
    };
    if numbers.len() > 1 {
        writeln!(screen)?;
        return rows(screen, &values, 6, each);
    }
    let mut style = Style::default();
    style.observe(&values);
    writeln!(screen, " = {}", style.words(&values).first().map_or("", |word| word.trim()))
}

/// So many numbers to a line.
fn rows(screen: &mut Screen<'_>, values: &Values, indent: usize, each: usize) -> fmt::Result {
    let mut style = Style::default();
    style.observe(values);
    for words in style.words(values).chunks(each) {
        writeln!(screen, "{:indent$}{}", "", words.join(" ").trim_end())?;
    }
    Ok(())
}
