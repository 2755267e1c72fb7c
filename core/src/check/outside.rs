//! What lies beside the text model in a larger one: told, and not checked.

use super::ties::grouped;
use crate::codes;
use crate::finding::Finding;
use crate::index::TensorInfo;
use crate::report::Outside;
use crate::table::TensorTable;
use std::collections::BTreeMap;

codes! {
    pub static OUTSIDE_TEXT_MODEL = Note, Names, "outside-text-model",
        "tensors of other parts than the text model",
        "The config is that of a larger model (it has a text_config), and the files hold other parts beside the text \
         model: an image or audio encoder, a projector. The text model is checked under the names that it has there; \
         the other parts are listed, and nothing is said about them.";
}

/// Parts that a message names.
const NAMED: usize = 8;

/// Tensors outside the text model, gathered by the beginnings of their names.
pub(super) fn parts(table: &TensorTable, tensors: &[&TensorInfo]) -> Vec<Outside> {
    let within = table.within().unwrap_or_default();
    let mut parts: BTreeMap<&str, Outside> = BTreeMap::new();
    for tensor in tensors {
        let part = part_of(&tensor.name, within);
        let outside =
            parts.entry(part).or_insert_with(|| Outside { part: part.to_owned(), tensors: 0, bytes: 0 });
        outside.tensors = outside.tensors.saturating_add(1);
        outside.bytes = outside.bytes.saturating_add(tensor.byte_len());
    }
    parts.into_values().collect()
}

/// The beginning of a name, up to the first component in which it departs from the text model's prefix.
fn part_of<'n>(name: &'n str, within: &str) -> &'n str {
    let mut end = 0usize;
    let mut own = within.split('.');
    for component in name.split('.') {
        let from = if end == 0 { 0 } else { end.saturating_add(1) };
        end = from.saturating_add(component.len());
        if own.next() != Some(component) {
            break;
        }
    }
    name.get(..end).unwrap_or(name)
}

/// One note about all of them.
pub(super) fn note(table: &TensorTable, parts: &[Outside]) -> Option<Finding> {
    let within = table.within()?;
    if parts.is_empty() {
        return None;
    }
    let counted = |tensors: usize, bytes: u64| {
        let s = if tensors == 1 { "" } else { "s" };
        format!("{} tensor{s}, {} bytes", grouped(tensors as u64), grouped(bytes))
    };
    let tensors = parts.iter().fold(0usize, |n, p| n.saturating_add(p.tensors));
    let bytes = parts.iter().fold(0u64, |n, p| n.saturating_add(p.bytes));
    let each = parts.iter().take(NAMED).map(|p| format!("{} ({})", p.part, counted(p.tensors, p.bytes)));
    let mut each: Vec<String> = each.collect();
    if parts.len() > NAMED {
        each.push(format!("{} parts more", grouped(parts.len().saturating_sub(NAMED) as u64)));
    }
    let message = format!(
        "the text model is checked as it lies under \"{within}\"; outside it, and not checked: {} in {}",
        counted(tensors, bytes),
        each.join(", ")
    );
    Some(Finding::new(&OUTSIDE_TEXT_MODEL, message))
}

#[cfg(test)]
mod tests {
    use super::part_of;

    #[test]
    fn a_part_is_where_names_depart() {
        assert_eq!(part_of("vision_tower.layers.0.weight", "language_model."), "vision_tower");
        assert_eq!(part_of("model.visual.blocks.0.weight", "model.language_model."), "model.visual");
        assert_eq!(part_of("lm_head_2", "model."), "lm_head_2");
        assert_eq!(part_of("model", "model.language_model."), "model");
        assert_eq!(part_of("", "model."), "");
    }
}
