//! A length together with the reason for it, so that a wrong shape can say what it follows from.

use std::fmt;
use std::ops::{Add, Mul};
use std::sync::Arc;

/// The length of one axis of a tensor, and the config keys behind it.
///
/// Arithmetic keeps the reason and saturates: a config may hold any number, and a length that is too
/// large is found when it is held against a shape.
///
/// ```
/// use scantling_core::axis::Axis;
/// let width = &Axis::new(16, "num_attention_heads") * &Axis::new(128, "head_dim");
/// assert_eq!(width.to_string(), "num_attention_heads × head_dim = 2048");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of elements along the axis.
    pub len: usize,
    why: Arc<str>,
}

impl Axis {
    /// A length and the key (or words) it comes from.
    pub fn new(len: usize, why: impl Into<Arc<str>>) -> Axis {
        Axis { len, why: why.into() }
    }

    /// What the length follows from.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The reason as a factor of a product: sums and quotients go into brackets.
    fn factor(&self) -> String {
        if self.why.contains(" + ") || self.why.contains(" / ") {
            format!("({})", self.why)
        } else {
            self.why.to_string()
        }
    }
}

impl Mul for &Axis {
    type Output = Axis;

    fn mul(self, other: &Axis) -> Axis {
        Axis::new(self.len.saturating_mul(other.len), format!("{} × {}", self.factor(), other.factor()))
    }
}

impl Mul<&Axis> for usize {
    type Output = Axis;

    fn mul(self, other: &Axis) -> Axis {
        Axis::new(self.saturating_mul(other.len), format!("{self} × {}", other.factor()))
    }
}

impl Add for &Axis {
    type Output = Axis;

    fn add(self, other: &Axis) -> Axis {
        Axis::new(self.len.saturating_add(other.len), format!("{} + {}", self.why, other.why))
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.why, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_compose() {
        let (a, b) = (Axis::new(3, "a"), Axis::new(4, "b"));
        assert_eq!((&(&a + &b) * &b).to_string(), "(a + b) × b = 28");
        assert_eq!((2 * &a).to_string(), "2 × a = 6");
        assert_eq!((&Axis::new(usize::MAX, "x") * &b).len, usize::MAX);
    }
}
