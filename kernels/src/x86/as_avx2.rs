//! What processors with VNNI do with the instructions of AVX2 alone.

/// Methods of a [`Dot8`](crate::int8::dot8::Dot8) that are those of the `Avx2` in its first field.
macro_rules! as_avx2 {
    ($(fn $name:ident $(<const $shift:ident: i32>)? ($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(
            #[inline(always)]
            fn $name $(<const $shift: i32>)? (self, $($arg: $type),*) -> $out {
                self.0.$name $(::<$shift>)? ($($arg),*)
            }
        )*
    };
}

/// The methods that all of them have in common: they take codes out of blocks, round activations, and add floats.
macro_rules! blocks_as_avx2 {
    () => {
        $crate::x86::as_avx2::as_avx2! {
            fn by_halves(bytes: &[u8; 16]) -> [u8; 16];
            fn six_bits(bytes: &[u8; 16]) -> [[u8; 16]; 2];
            fn halves(bits: [u16; 8]) -> [f32; 8];
            fn greatest(x: &[f32; 32]) -> u32;
            fn rounded(x: &[f32; 32], by: f32) -> [i8; 32];
            fn pair_sums(x: &[i8; 32]) -> [[i16; 2]; 2];
            fn load(codes: &[u8; 32]) -> __m256i;
            fn store(codes: __m256i, to: &mut [u8; 32]) -> ();
            fn nibbles(bytes: &[u8; 16]) -> __m256i;
            fn bits(bits: u32) -> __m256i;
            fn field<const SHIFT: i32>(bytes: __m256i, mask: u8) -> __m256i;
            fn join<const SHIFT: i32>(low: __m256i, high: __m256i) -> __m256i;
            fn offset(bytes: __m256i, by: i8) -> __m256i;
            fn lookup(table: &[i8; 16], codes: __m256i) -> __m256i;
            fn minima(minima: [u8; 16], sums: &[i16; 16]) -> __m256i;
            fn no_sums() -> __m256i;
            fn no_floats() -> __m256;
            fn add_sums(floats: __m256, sums: __m256i, by: f32) -> __m256;
            fn add_products(floats: __m256, a: &[f32; 8], b: &[f32; 8]) -> __m256;
            fn prefetch(from: *const u8) -> ();
            fn join_floats(a: __m256, b: __m256) -> __m256;
            fn total(floats: __m256) -> f32;
        }
    };
}

pub(super) use {as_avx2, blocks_as_avx2};
