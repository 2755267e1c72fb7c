//! Names of tensors taken apart, whatever family they are of.

/// A tensor's name taken apart at its layer's number.
pub(crate) struct Parted<'a> {
    /// What comes before the number.
    pub prefix: &'a str,
    pub layer: usize,
    /// What comes after, the number of an expert replaced by `*`.
    pub local: String,
}

/// Parts a name at its first component that is all digits.
pub(crate) fn part(name: &str) -> Option<Parted<'_>> {
    let mut start = 0;
    let mut before = "";
    for component in name.split('.') {
        let end = start + component.len();
        if !component.is_empty() && start > 0 && component.bytes().all(|b| b.is_ascii_digit()) {
            let layer = component.parse().ok()?;
            let local = name.get(end + 1..)?;
            let prefix = name.get(..start - 1)?;
            return (before != "experts").then(|| Parted { prefix, layer, local: without_expert(local) });
        }
        before = component;
        start = end + 1;
    }
    None
}

/// `mlp.experts.*.gate_proj.weight` of `mlp.experts.17.gate_proj.weight`.
pub(crate) fn without_expert(local: &str) -> String {
    let mut parts: Vec<&str> = local.split('.').collect();
    if let Some(at) = parts.iter().position(|p| *p == "experts")
        && let Some(number) = parts.get_mut(at + 1)
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        *number = "*";
    }
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_part_at_the_layer() {
        let p = part("model.layers.12.self_attn.q_proj.weight").unwrap();
        assert_eq!((p.prefix, p.layer, p.local.as_str()), ("model.layers", 12, "self_attn.q_proj.weight"));
        let p = part("model.layers.3.mlp.experts.17.up_proj.weight").unwrap();
        assert_eq!((p.layer, p.local.as_str()), (3, "mlp.experts.*.up_proj.weight"));
        assert!(part("token_embd.weight").is_none());
        assert!(part("0.weight").is_none());
        assert!(part("").is_none());
        assert!(part("a.99999999999999999999999.b").is_none());
    }
}
