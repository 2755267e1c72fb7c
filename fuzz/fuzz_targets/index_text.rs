//! libFuzzer's entry to the target of this name.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    scantling_fuzz::targets::index_text(data);
});
