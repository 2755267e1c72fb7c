//! Which elements of a tensor are meant: `[0, :5]`, as Python writes it.

use super::unravel;
use crate::index::Shape;

/// What is taken of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The first place.
    pub first: usize,
    /// From each place to the next.
    pub step: isize,
    /// How many.
    pub count: usize,
    /// Whether a single place was named: the axis is gone then.
    pub single: bool,
}

impl Pick {
    /// All of an axis.
    pub fn all(len: usize) -> Pick {
        Pick { first: 0, step: 1, count: len, single: false }
    }

    /// The place of the `i`-th that is taken.
    pub fn place(&self, i: usize) -> usize {
        let off = self.step.unsigned_abs().saturating_mul(i);
        if self.step < 0 { self.first.saturating_sub(off) } else { self.first.saturating_add(off) }
    }

    /// Whether it is all of an axis of this length, in order.
    pub fn is_all(&self, len: usize) -> bool {
        self.count == len && (len <= 1 || self.step == 1)
    }
}

/// What is taken of a tensor: of each axis something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// One for each axis, outermost first.
    pub picks: Vec<Pick>,
}

impl Selection {
    /// All of a tensor.
    pub fn all(shape: &[usize]) -> Selection {
        Selection { picks: shape.iter().map(|len| Pick::all(*len)).collect() }
    }

    /// What stands between brackets, or in words why it does not fit the shape. Axes that are not named are taken whole.
    pub fn parse(text: &str, shape: &[usize]) -> Result<Selection, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let words = match words.as_slice() {
            // A comma at the end changes nothing.
            [before @ .., ""] if !before.is_empty() => before,
            all => all,
        };
        let alone = words.len() == 1;
        let dots = words.iter().filter(|word| **word == "...").count();
        let named = words.len().saturating_sub(dots);
        if dots > 1 {
            return Err("... stands for all other axes, so it can stand there once".to_owned());
        }
        if named > shape.len() {
            let axes = if shape.len() == 1 { "axis" } else { "axes" };
            return Err(format!(
                "{named} axes are named, and it has {} {axes}: {:?}",
                shape.len(),
                Shape(shape)
            ));
        }
        let mut picks = Vec::with_capacity(shape.len());
        for word in words {
            if *word == "..." {
                let others = shape.len().saturating_sub(named);
                let some = shape.iter().skip(picks.len()).take(others);
                picks.extend(some.map(|len| Pick::all(*len)));
                continue;
            }
            let axis = picks.len();
            let len = shape.get(axis).copied().unwrap_or(0);
            picks.push(pick(word, len).map_err(|why| {
                let place = if alone { flat(word, shape) } else { String::new() };
                format!(
                    "\"{word}\" {why}: axis {axis} has the length {len}, the shape is {:?}{place}",
                    Shape(shape)
                )
            })?);
        }
        picks.extend(shape.iter().skip(picks.len()).map(|len| Pick::all(*len)));
        Ok(Selection { picks })
    }

    /// Lengths of the axes that are left.
    pub fn shape(&self) -> Vec<usize> {
        self.picks.iter().filter(|pick| !pick.single).map(|pick| pick.count).collect()
    }

    /// How many elements.
    pub fn elements(&self) -> u64 {
        if self.picks.iter().any(|pick| pick.count == 0) {
            return 0;
        }
        self.picks.iter().fold(1u64, |n, pick| n.saturating_mul(pick.count as u64))
    }

    /// The places of the one element that is named, if it is one; of a tensor without axes there is none to name.
    pub fn single(&self) -> Option<Vec<usize>> {
        let all = !self.picks.is_empty() && self.picks.iter().all(|pick| pick.single);
        all.then(|| self.picks.iter().map(|pick| pick.first).collect())
    }

    /// Whether it is all of a tensor of this shape, in order.
    pub fn is_all(&self, shape: &[usize]) -> bool {
        self.picks.iter().zip(shape).all(|(pick, len)| pick.is_all(*len))
    }

    /// The axis whose places come one after the other first: the last that is left.
    pub fn innermost(&self) -> Option<usize> {
        self.picks.iter().rposition(|pick| !pick.single)
    }
}

/// Where the element of this number is, if the tensor has as many: others count elements through all axes.
fn flat(word: &str, shape: &[usize]) -> String {
    let elements = shape.iter().try_fold(1usize, |n, len| n.checked_mul(*len));
    match word.parse::<usize>().ok().filter(|n| shape.len() > 1 && elements.is_some_and(|all| *n < all)) {
        Some(n) => format!("; element {n} is {:?}", Shape(&unravel(n, shape))),
        None => String::new(),
    }
}

/// One axis: a place, or a range.
fn pick(word: &str, len: usize) -> Result<Pick, &'static str> {
    const UNREADABLE: &str = "is no place and no range like 10:20";
    let number = |word: &str| -> Result<Option<i64>, &'static str> {
        let word = word.trim();
        if word.is_empty() { Ok(None) } else { word.parse().map(Some).map_err(|_| UNREADABLE) }
    };
    let signed = i64::try_from(len).unwrap_or(i64::MAX);
    // Places below 0 count from the end.
    let from_end = |place: i64| if place < 0 { place.saturating_add(signed) } else { place };
    let parts: Vec<&str> = word.split(':').collect();
    let (start, end, step) = match *parts.as_slice() {
        [one] => {
            let place = from_end(number(one)?.ok_or(UNREADABLE)?);
            let place = usize::try_from(place).ok().filter(|place| *place < len);
            let first = place.ok_or("is out of range")?;
            return Ok(Pick { first, step: 1, count: 1, single: true });
        }
        [start, end] => (number(start)?, number(end)?, 1),
        [start, end, step] => (number(start)?, number(end)?, number(step)?.unwrap_or(1)),
        _ => return Err(UNREADABLE),
    };
    if step == 0 {
        return Err("has a step of 0");
    }
    let bound = |place: Option<i64>, otherwise: i64, least: i64, most: i64| {
        place.map_or(otherwise, |place| from_end(place).clamp(least, most))
    };
    let (first, past) = if step > 0 {
        (bound(start, 0, 0, signed), bound(end, signed, 0, signed))
    } else {
        let last = signed.saturating_sub(1);
        (bound(start, last, -1, last), bound(end, -1, -1, last))
    };
    let span = if step > 0 { past.saturating_sub(first) } else { first.saturating_sub(past) };
    let count = u64::try_from(span).unwrap_or(0).div_ceil(step.unsigned_abs());
    if count == 0 && len > 0 {
        return Err("takes nothing");
    }
    let first = usize::try_from(first.max(0)).unwrap_or(0);
    let step = isize::try_from(step).map_err(|_| "has a step beyond counting")?;
    Ok(Pick { first, step, count: usize::try_from(count).unwrap_or(usize::MAX), single: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(text: &str, len: usize) -> Result<Vec<usize>, String> {
        let selection = Selection::parse(text, &[len])?;
        Ok((0..selection.picks[0].count).map(|i| selection.picks[0].place(i)).collect())
    }

    #[test]
    fn ranges_are_those_of_python() {
        // What Python 3 gives for list(range(8))[...].
        let cases: [(&str, &[usize]); 14] = [
            (":", &[0, 1, 2, 3, 4, 5, 6, 7]),
            ("2:5", &[2, 3, 4]),
            (":3", &[0, 1, 2]),
            ("6:", &[6, 7]),
            ("-2:", &[6, 7]),
            (":-6", &[0, 1]),
            ("-3:-1", &[5, 6]),
            ("5:100", &[5, 6, 7]),
            ("-100:2", &[0, 1]),
            ("::3", &[0, 3, 6]),
            ("1:7:4", &[1, 5]),
            ("::-1", &[7, 6, 5, 4, 3, 2, 1, 0]),
            ("5:1:-2", &[5, 3]),
            ("100::-5", &[7, 2]),
        ];
        for (text, wanted) in cases {
            assert_eq!(places(text, 8).unwrap(), wanted, "{text}");
        }
        assert_eq!(
            (places("3", 8), places("-1", 8), places(" -8 ", 8)),
            (Ok(vec![3]), Ok(vec![7]), Ok(vec![0]))
        );
    }

    #[test]
    fn axes_that_are_not_named_are_whole() {
        let shape = [2, 3, 4];
        let shapes = |text| Selection::parse(text, &shape).map(|s| (s.shape(), s.elements()));
        assert_eq!(shapes("0"), Ok((vec![3, 4], 12)));
        assert_eq!(shapes("0, 1"), Ok((vec![4], 4)));
        assert_eq!(shapes("..., 1"), Ok((vec![2, 3], 6)));
        assert_eq!(shapes("1, ..., 2:"), Ok((vec![3, 2], 6)));
        assert_eq!(shapes("0,0,0"), Ok((vec![], 1)));
        assert_eq!(shapes("0,"), Ok((vec![3, 4], 12)));
        assert!(Selection::parse(":", &shape).unwrap().is_all(&shape));
        assert!(Selection::parse("...", &[]).unwrap().is_all(&[]));
        assert!(!Selection::parse("::-1", &shape).unwrap().is_all(&shape));
    }

    #[test]
    fn what_does_not_fit_is_told_with_the_shape() {
        let told = |text| Selection::parse(text, &[8, 4]).unwrap_err();
        assert_eq!(told("-9"), "\"-9\" is out of range: axis 0 has the length 8, the shape is [8, 4]");
        assert_eq!(
            told("29"),
            "\"29\" is out of range: axis 0 has the length 8, the shape is [8, 4]; element 29 is [7, 1]"
        );
        assert!(told("8, 0").ends_with("[8, 4]") && told("32").ends_with("[8, 4]"));
        assert_eq!(told("0, -5"), "\"-5\" is out of range: axis 1 has the length 4, the shape is [8, 4]");
        assert_eq!(told("5:5"), "\"5:5\" takes nothing: axis 0 has the length 8, the shape is [8, 4]");
        assert_eq!(told("0,0,0"), "3 axes are named, and it has 2 axes: [8, 4]");
        for bad in ["", "x", "1:2:3:4", "::0", "1.5", "..., ...", "99999999999999999999", ",1"] {
            assert!(Selection::parse(bad, &[8, 4]).is_err(), "{bad}");
        }
        // An axis of nothing has nothing to take, and that is all of it.
        assert!(Selection::parse(":", &[0, 4]).unwrap().is_all(&[0, 4]));
        assert!(Selection::parse("0", &[0]).is_err());
    }

    proptest! {
        #[test]
        fn places_are_within_the_axis(text in "[-0-9:,. ]{0,12}", len in 0usize..20) {
            if let Ok(selection) = Selection::parse(&text, &[len, 3]) {
                for (pick, len) in selection.picks.iter().zip([len, 3]) {
                    prop_assert!((0..pick.count).all(|i| pick.place(i) < len), "{:?} of {}", pick, len);
                }
            }
        }
    }
}
