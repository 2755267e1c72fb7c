//! What a set of vector instructions offers for products of small integers: the primitives that the loops beside
//! this file are written in.
//!
//! A value of a type that implements [`Dot8`] proves that the processor has the instructions: only the type's
//! detector makes one. Primitives are inlined into the function that [`Dot8::run`] enters, the one place where the
//! instructions are switched on for the compiler.
//!
//! Two shapes of data occur. *Along a row*: a run of 32 codes of one row of weights against 32 activations
//! ([`Bytes`](Dot8::Bytes), [`Products`](Dot8::Products), [`Sums`](Dot8::Sums), [`Floats`](Dot8::Floats)); the lanes
//! are added up at the end of the row. *Across outputs*: 4 codes of each of [`OUTPUTS`] rows of weights against the
//! same 4 activations ([`Quads`](Dot8::Quads), [`Runs`](Dot8::Runs), [`Totals`](Dot8::Totals),
//! [`Outputs`](Dot8::Outputs)); each lane belongs to one output. All sums of integers are exact.

/// Rows of weights in a panel.
pub(crate) const OUTPUTS: usize = 16;

/// Vectors of bytes, and of what their products add up to.
pub(crate) trait Dot8: Copy + Send + Sync + 'static {
    /// 32 codes of a row.
    type Bytes: Copy;
    /// Products of 32 codes and 32 activations, partly added up.
    type Products: Copy;
    /// Whole numbers of 32 bits that add up to a sum along a row.
    type Sums: Copy;
    /// Floats that add up to an output.
    type Floats: Copy;
    /// Sixteen whole numbers, each a scale of one half of a run.
    type Factors: Copy;
    /// Eight floats, each a scale of one run.
    type Eight: Copy;

    /// 4 codes of each output.
    type Quads: Copy;
    /// Sums over a run of elements, in as few bits as hold them.
    type Runs: Copy;
    /// 32-bit sums, one for each output.
    type Totals: Copy;
    /// f32 sums, one for each output.
    type Outputs: Copy;

    /// Whether [`Runs`](Self::Runs) have 16 bits, each holding the products of two of the four places of a quad.
    const NARROW: bool;
    /// Whether two rows of weights can be taken together, as [`heads_of_two`](Self::heads_of_two) does; and whether
    /// [`byte_pairs`](Self::byte_pairs) and [`nibble_pairs`](Self::nibble_pairs) give the first halves of both
    /// runs, then their second halves, and [`add_pair`](Self::add_pair) takes codes and activations in that order. If
    /// not, the one run comes after the other.
    const PAIRED: bool = false;
    /// Whether [`multiply_rows`](Self::multiply_rows) takes two rows of activations at once, and codes in an order of its
    /// own.
    const SQUARES: bool = false;

    /// Runs a loop with the instructions switched on.
    fn run<T: Task>(self, task: T) -> T::Out;
    /// Bytes for the halves of runs, in the order of the elements, as those of all first halves and then those of all
    /// second halves.
    #[inline(always)]
    fn by_halves(self, bytes: &[u8; 16]) -> [u8; 16] {
        let mut out = [0; 16];
        for (i, byte) in bytes.iter().enumerate() {
            out[i / 2 + i % 2 * 8] = *byte;
        }
        out
    }
    /// The eight scales and eight minima of 6 bits that the last 12 of 16 bytes hold, twice. Scales 0..4 are the
    /// low bits of bytes 0..4, minima those of bytes 4..8. Of the others, low nibbles of bytes 8..12 are the low bits
    /// of scales, high nibbles those of minima, and what bytes 0..8 have left the high bits.
    #[inline(always)]
    fn six_bits(self, bytes: &[u8; 16]) -> [[u8; 16]; 2] {
        let words = bytes.as_chunks::<4>().0;
        let (a, b, c) =
            (u32::from_le_bytes(words[1]), u32::from_le_bytes(words[2]), u32::from_le_bytes(words[3]));
        [twice(six_bits_of_8(a, c)), twice(six_bits_of_8(b, c >> 4))]
    }
    /// Widens eight f16.
    fn halves(self, bits: [u16; 8]) -> [f32; 8];

    // Activations.

    /// The largest magnitude, as bits without sign: so floats are in order, infinity and NaN above all numbers.
    #[inline(always)]
    fn greatest(self, x: &[f32; 32]) -> u32 {
        let mut most = 0;
        for x in x {
            most = (x.to_bits() & 0x7fff_ffff).max(most);
        }
        most
    }

    /// The whole number nearest to each product, of two the even one; all are within ±127.
    #[inline(always)]
    fn rounded(self, x: &[f32; 32], by: f32) -> [i8; 32] {
        let mut codes = [0; 32];
        for (code, x) in codes.iter_mut().zip(x) {
            *code = (x * by).round_ties_even() as i8;
        }
        codes
    }

    /// Of each 16 activations, the sum of those in the first two places of four, and of those in the last two.
    #[inline(always)]
    fn pair_sums(self, x: &[i8; 32]) -> [[i16; 2]; 2] {
        let mut sums = [[0; 2]; 2];
        for (e, x) in x.iter().enumerate() {
            sums[e / 16][e % 4 / 2] += i16::from(*x);
        }
        sums
    }

    /// What [`add_raised_pair`](Self::add_raised_pair) wants to know of the activations.
    #[inline(always)]
    fn raised(self, _x: &[i8; 32], _by: i8) -> [i16; 16] {
        [0; 16]
    }

    // Bytes: how codes are taken out of stored blocks.

    /// From memory.
    fn load(self, codes: &[u8; 32]) -> Self::Bytes;
    /// To memory.
    fn store(self, codes: Self::Bytes, to: &mut [u8; 32]);
    /// 32 bytes and 32 others: two runs in the order of [`PAIRED`](Self::PAIRED).
    #[inline(always)]
    fn byte_pairs(self, a: &[u8; 32], b: &[u8; 32]) -> [Self::Bytes; 2] {
        [self.load(a), self.load(b)]
    }
    /// The low nibbles of 16 bytes, then their high nibbles.
    fn nibbles(self, bytes: &[u8; 16]) -> Self::Bytes;
    /// The nibbles of 16 bytes and of 16 others, low ones before high ones: two runs in the order of
    /// [`PAIRED`](Self::PAIRED).
    #[inline(always)]
    fn nibble_pairs(self, a: &[u8; 16], b: &[u8; 16]) -> [Self::Bytes; 2] {
        [self.nibbles(a), self.nibbles(b)]
    }
    /// A byte of 0 or 1 for each bit, the lowest bit first.
    fn bits(self, bits: u32) -> Self::Bytes;
    /// `(bytes >> SHIFT) & mask`, each byte by itself. `mask` is below `256 >> SHIFT`.
    fn field<const SHIFT: i32>(self, bytes: Self::Bytes, mask: u8) -> Self::Bytes;
    /// `low | high << SHIFT`, each byte by itself. No bit of `high` is shifted out of its byte.
    fn join<const SHIFT: i32>(self, low: Self::Bytes, high: Self::Bytes) -> Self::Bytes;
    /// `bytes + by`, wrapping.
    fn offset(self, bytes: Self::Bytes, by: i8) -> Self::Bytes;
    /// `table[code]` for codes below 16.
    fn lookup(self, table: &[i8; 16], codes: Self::Bytes) -> Self::Bytes;

    // Along a row.

    /// Products of codes with activations, none of which is -128. Codes are signed, or 0..=63 and unsigned.
    fn products<const SIGNED: bool>(self, codes: Self::Bytes, x: &[i8; 32]) -> Self::Products;
    /// Signed scales: those of the first halves of all runs, then those of the second halves.
    fn factors(self, scales: [u8; 16]) -> Self::Factors;
    /// `sums + products · scales` of run `run`, the first 16 products with scale `run`, the others with `run + 8`.
    fn scaled(
        self,
        sums: Self::Sums,
        products: Self::Products,
        scales: Self::Factors,
        run: usize,
    ) -> Self::Sums;
    /// What codes that are too large by `by` make too much, with the sign turned: `-by · Σ scales · sums`.
    fn lowered(self, scales: Self::Factors, sums: &[i16; 16], by: i16) -> Self::Sums;
    /// The same sums, as values that the compiler knows nothing of. Otherwise it takes sums in another order, for which
    /// it holds more codes and scales at a time than there are registers.
    #[inline(always)]
    fn settled(self, sums: Self::Sums) -> Self::Sums {
        sums
    }
    /// Σ minima · sums.
    fn minima(self, minima: [u8; 16], sums: &[i16; 16]) -> Self::Sums;
    /// No sums yet.
    fn no_sums(self) -> Self::Sums;
    /// No floats yet.
    fn no_floats(self) -> Self::Floats;
    /// `floats + sums · by`, rounded once.
    fn add_sums(self, floats: Self::Floats, sums: Self::Sums, by: f32) -> Self::Floats;
    /// `floats + (Σ codes · x) · by` of two runs in the order of [`PAIRED`](Self::PAIRED), the first by number
    /// `pair`, the second by number `pair + 4`. Codes are signed if `WIDE`; if not, they are 0..=31.
    fn add_pair<const WIDE: bool>(
        self,
        floats: Self::Floats,
        codes: [Self::Bytes; 2],
        x: [&[i8; 32]; 2],
        by: Self::Eight,
        pair: usize,
    ) -> Self::Floats;
    /// The same for codes that are too large.
    #[inline(always)]
    fn add_raised_pair(
        self,
        floats: Self::Floats,
        codes: [Self::Bytes; 2],
        raised: Raised<'_>,
        x: [&[i8; 32]; 2],
        by: Self::Eight,
        pair: usize,
    ) -> Self::Floats {
        let codes = [self.offset(codes[0], -raised.by), self.offset(codes[1], -raised.by)];
        self.add_pair::<true>(floats, codes, x, by, pair)
    }
    /// `floats + a · b`, for numbers that belong to one output.
    fn add_products(self, floats: Self::Floats, a: &[f32; 8], b: &[f32; 8]) -> Self::Floats;
    /// `a · b`, number by number.
    fn multiplied(self, a: &[f32; 8], b: &[f32; 8]) -> Self::Eight;
    /// The heads of a span of each of two rows, in the format of [`six_bits`](Self::six_bits) behind `d` and `m` in f16.
    #[inline(always)]
    fn heads_of_two(self, _a: &[u8; 16], _b: &[u8; 16]) -> Heads<Self> {
        unreachable!("only with PAIRED")
    }
    /// Products of a run of two rows: the first halves of both, then the second halves. Codes are at most 31.
    #[inline(always)]
    fn products_of_two(self, _codes: [Self::Bytes; 2], _x: &[i8; 32]) -> Self::Products {
        unreachable!("only with PAIRED")
    }
    /// `floats + (sums · d - Σ minima · run_sums · m) · by`.
    #[inline(always)]
    fn add_two(
        self,
        _floats: Self::Floats,
        _sums: Self::Sums,
        _heads: &Heads<Self>,
        _run_sums: &[i16; 8],
        _by: f32,
    ) -> Self::Floats {
        unreachable!("only with PAIRED")
    }
    /// What belongs to each of two rows, added up.
    #[inline(always)]
    fn totals_of_two(self, _floats: Self::Floats) -> [f32; 2] {
        unreachable!("only with PAIRED")
    }
    /// Has memory brought near that is read soon. It need not be there at all.
    #[inline(always)]
    fn prefetch(self, _from: *const u8) {}
    /// `a + b`.
    fn join_floats(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// All lanes, added up.
    fn total(self, floats: Self::Floats) -> f32;

    // Across outputs.

    /// From memory.
    fn quads(self, codes: &[u8; 4 * OUTPUTS]) -> Self::Quads;
    /// Sums that start from `pair << SHIFT`, `pair` being two 16-bit numbers: what is already known of the first
    /// two places of all quads of the run, and of the last two.
    fn start<const SHIFT: i32>(self, pair: u32) -> Self::Runs;
    /// What sums of signed codes of 8 bits start from, `pairs` being known of the two halves of the run: nothing,
    /// unless [`multiply`](Self::multiply) takes such codes for larger by 128.
    #[inline(always)]
    fn start_wide(self, _pairs: [u32; 2]) -> Self::Runs {
        self.start::<0>(0)
    }
    /// `runs + Σ codes · x`, modulo 2^16 if [`NARROW`](Self::NARROW); `x` is four activations. Codes are signed if
    /// `WIDE`; if not, they are 0..=63.
    fn multiply<const WIDE: bool>(self, runs: Self::Runs, codes: Self::Quads, x: u32) -> Self::Runs;
    /// The same for quads one after the other, in the order of [`transpose`](Self::transpose), and `R` rows of
    /// activations.
    #[inline(always)]
    fn multiply_rows<const WIDE: bool, const R: usize>(
        self,
        runs: [Self::Runs; R],
        codes: &[[u8; 4 * OUTPUTS]],
        x: &[[u32; R]],
    ) -> [Self::Runs; R] {
        one_by_one::<WIDE, R, Self>(self, runs, codes, x)
    }
    /// No totals yet.
    fn no_totals(self) -> Self::Totals;
    /// `totals + runs · scales`, the scale of each output given twice.
    fn add_runs(self, totals: Self::Totals, runs: Self::Runs, scales: &[[i16; 2]; OUTPUTS]) -> Self::Totals;
    /// The same totals, for the same reason as with [`settled`](Self::settled).
    #[inline(always)]
    fn settled_totals(self, totals: Self::Totals) -> Self::Totals {
        totals
    }
    /// `totals + Σ a · b`, `b` being two 16-bit numbers.
    fn add_pairs(self, totals: Self::Totals, a: &[[i16; 2]; OUTPUTS], b: u32) -> Self::Totals;
    /// From memory.
    fn outputs(self, from: &[f32; OUTPUTS]) -> Self::Outputs;
    /// To memory.
    fn store_outputs(self, outputs: Self::Outputs, to: &mut [f32; OUTPUTS]);
    /// `outputs + totals · (by · factor)`.
    fn add_totals(
        self,
        outputs: Self::Outputs,
        totals: Self::Totals,
        by: &[f32; OUTPUTS],
        factor: f32,
    ) -> Self::Outputs;
    /// `outputs + by · factor`.
    fn add_scaled(self, outputs: Self::Outputs, by: &[f32; OUTPUTS], factor: f32) -> Self::Outputs;

    /// Codes of each row, row after row, as quads: `to[g]` holds elements `4g..4g + 4` of each row. Or else in whatever
    /// order [`multiply_rows`](Self::multiply_rows) takes them.
    #[inline(always)]
    fn transpose(self, rows: &[[u8; 256]; OUTPUTS], to: &mut [[u8; 4 * OUTPUTS]; 64]) {
        quads(rows, to);
    }
}

/// [`Dot8::multiply_rows`], quad by quad and row by row.
#[inline(always)]
pub(crate) fn one_by_one<const WIDE: bool, const R: usize, S: Dot8>(
    s: S,
    mut runs: [S::Runs; R],
    codes: &[[u8; 4 * OUTPUTS]],
    x: &[[u32; R]],
) -> [S::Runs; R] {
    for (codes, x) in codes.iter().zip(x) {
        let codes = s.quads(codes);
        for r in 0..R {
            runs[r] = s.multiply::<WIDE>(runs[r], codes, x[r]);
        }
    }
    runs
}

/// [`Dot8::transpose`] as it says.
#[inline(always)]
pub(crate) fn quads(rows: &[[u8; 256]; OUTPUTS], to: &mut [[u8; 4 * OUTPUTS]; 64]) {
    for (r, row) in rows.iter().enumerate() {
        for (quad, to) in row.as_chunks::<4>().0.iter().zip(to.iter_mut()) {
            to.as_chunks_mut::<4>().0[r] = *quad;
        }
    }
}

/// What the heads of two spans say, each in its half of the vectors.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only that takes runs or rows in pairs"))]
#[derive(Clone, Copy)]
pub(crate) struct Heads<S: Dot8> {
    /// Eight scales.
    pub scales: S::Factors,
    /// Eight minima.
    pub minima: S::Factors,
    /// What scales are multiplied by.
    pub d: S::Floats,
    /// The same for minima, with the sign turned.
    pub m: S::Floats,
}

/// Of codes that are too large.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only that takes runs or rows in pairs"))]
pub(crate) struct Raised<'a> {
    /// By how much. Without it, they lie within ±`by`.
    pub by: i8,
    /// What [`Dot8::raised`] made of the activations: with [`Dot8::PAIRED`], those of both runs.
    pub products: &'a [i16; 16],
}

/// Eight bytes, lowest first, and again.
#[inline(always)]
pub(crate) fn twice(bytes: u64) -> [u8; 16] {
    (u128::from(bytes) << 64 | u128::from(bytes)).to_le_bytes()
}

/// Four in the low six bits of a word, four in the nibbles of another and the two bits left over.
#[inline(always)]
fn six_bits_of_8(word: u32, nibbles: u32) -> u64 {
    let low = word & 0x3f3f_3f3f;
    let high = (nibbles & 0x0f0f_0f0f) | (word >> 6 & 0x0303_0303) << 4;
    u64::from(low) | u64::from(high) << 32
}

/// A loop, to be compiled for whatever instructions it is run with.
pub(crate) trait Task {
    /// What it returns.
    type Out;
    /// The loop. Implementations are `#[inline(always)]`.
    fn call<S: Dot8>(self, s: S) -> Self::Out;
}
