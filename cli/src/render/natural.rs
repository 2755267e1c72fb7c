//! Names in the order in which people count: layer 2 before layer 10.

use std::cmp::Ordering;

/// Compares texts, runs of digits in them by their value. Equal only if the texts are.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    while let (Some(&c), Some(&d)) = (x.first(), y.first()) {
        if c.is_ascii_digit() && d.is_ascii_digit() {
            let (n, rest_x) = number(x);
            let (m, rest_y) = number(y);
            let order = n.len().cmp(&m.len()).then_with(|| n.cmp(m));
            if order != Ordering::Equal {
                return order;
            }
            (x, y) = (rest_x, rest_y);
        } else if c != d {
            return c.cmp(&d);
        } else {
            (x, y) = (x.get(1..).unwrap_or_default(), y.get(1..).unwrap_or_default());
        }
    }
    x.len().cmp(&y.len()).then_with(|| a.cmp(b))
}

/// The digits at the front without leading zeros, and what follows them.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let zeros = digits.iter().take_while(|&&b| b == b'0').count();
    (digits.get(zeros..).unwrap_or_default(), rest)
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn numbers_by_value() {
        let mut names = ["blk.10.a", "blk.2.b", "blk.2.a", "a", "blk.02.a", "blk.", "blk.2"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ["a", "blk.", "blk.2", "blk.02.a", "blk.2.a", "blk.2.b", "blk.10.a"]);
    }
}
