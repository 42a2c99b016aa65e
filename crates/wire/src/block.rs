//! Looks at several bytes of a JSON string together.

/// The number of bytes in a block.
pub(crate) const BLOCK: usize = 16;

/// The result of looking at one block of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// How many bytes come before the first one that ends the string, begins an escape, or is a control character.
    pub plain: usize,
    /// Not 0 if a byte is not ASCII.
    pub(super) not_ascii: u32,
}

impl Block {
    /// Looks at a whole block.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn new(bytes: &[u8; BLOCK]) -> Self {
        let (special, not_ascii) = vectors::classify(bytes);
        Self { plain: (special | 1 << BLOCK).trailing_zeros() as usize, not_ascii }
    }

    /// Looks at the last `len` bytes, from 1 to 16.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn of_last(bytes: &[u8; BLOCK], len: usize) -> Self {
        let (special, not_ascii) = vectors::classify(bytes);
        let (special, not_ascii) = (special >> (BLOCK - len), not_ascii >> (BLOCK - len));
        Self { plain: (special | 1 << len).trailing_zeros() as usize, not_ascii }
    }

    /// Looks at a whole block.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    pub fn new(bytes: &[u8; BLOCK]) -> Self {
        let (plain, not_ascii) = words::classify(u128::from_le_bytes(*bytes));
        Self { plain, not_ascii }
    }

    /// Looks at the last `len` bytes, from 1 to 16.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn of_last(bytes: &[u8; BLOCK], len: usize) -> Self {
        let (plain, not_ascii) = words::look_at_last(u128::from_le_bytes(*bytes), len);
        Self { plain, not_ascii }
    }
}

/// Returns the place of the first byte from `at` on that ends a string, begins an escape, or is a control character; the
/// end of the text if there is none. The second number is not 0 if a byte before it is not ASCII; it may be so because
/// of a later byte.
#[inline(always)]
pub(crate) fn skip_plain(text: &[u8], mut at: usize) -> (usize, u32) {
    let mut not_ascii = 0;
    while let Some(bytes) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let block = Block::new(bytes);
        not_ascii |= block.not_ascii;
        at += block.plain;
        if block.plain < BLOCK {
            return (at, not_ascii);
        }
        // A string that is longer than a block may be much longer. A step of this loop does not depend on the
        // result of the last one, so that the processor works on several at once.
        for run in text.get(at..).unwrap_or_default().as_chunks().0 {
            let Some(bits) = plain_run(run) else { break };
            not_ascii |= bits;
            at += run.len();
        }
    }
    // The rest is less than a block.
    let rest = text.get(at..).unwrap_or_default();
    let block = match text.last_chunk() {
        _ if rest.is_empty() => return (at, not_ascii),
        Some(last) => Block::of_last(last, rest.len()),
        None => {
            // A quote follows it, so that it ends there.
            let mut block = [b'"'; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            Block::new(&block)
        }
    };
    (at + block.plain, not_ascii | block.not_ascii)
}

/// The number of bytes in a run of blocks.
const RUN: usize = 4 * BLOCK;

/// Looks at a run of blocks. `None` if one of their bytes is special; else not 0 if one is not ASCII.
#[inline(always)]
pub(super) fn plain_run(bytes: &[u8; RUN]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    use vectors::look_at_all;
    #[cfg(not(target_arch = "x86_64"))]
    use words::look_at_all;
    let (blocks, _) = bytes.as_chunks();
    let (special, not_ascii) = look_at_all(blocks);
    (special == 0).then_some(not_ascii)
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    //! Blocks as vectors of 16 bytes.

    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8, _mm_setzero_si128, _mm_xor_si128,
    };

    /// Returns a bit for each byte that is special, and one for each byte that is not ASCII.
    #[inline(always)]
    pub(super) fn classify(block: &[u8; 16]) -> (u32, u32) {
        #[expect(unsafe_code, reason = "the instructions need SSE2, which is a part of x86-64")]
        unsafe {
            let bytes = load(block);
            let special = _mm_or_si128(is_escape(bytes), ends_or_controls(moved(bytes)));
            (_mm_movemask_epi8(special).cast_unsigned(), _mm_movemask_epi8(bytes).cast_unsigned())
        }
    }

    /// Returns the same of several blocks, whose bits are joined.
    #[inline(always)]
    pub(super) fn look_at_all(blocks: &[[u8; 16]]) -> (u32, u32) {
        #[expect(unsafe_code, reason = "the instructions need SSE2, which is a part of x86-64")]
        unsafe {
            let (mut escape, mut all) = (_mm_setzero_si128(), _mm_setzero_si128());
            let mut least = _mm_set1_epi8(-1);
            for block in blocks {
                let bytes = load(block);
                escape = _mm_or_si128(escape, is_escape(bytes));
                least = _mm_min_epu8(least, moved(bytes));
                all = _mm_or_si128(all, bytes);
            }
            // The least byte of each place is enough, and is compared once.
            let special = _mm_or_si128(escape, ends_or_controls(least));
            (_mm_movemask_epi8(special).cast_unsigned(), _mm_movemask_epi8(all).cast_unsigned())
        }
    }

    /// Returns the bytes of a block.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(block: &[u8; 16]) -> __m128i {
        #[expect(unsafe_code, reason = "the instruction takes a pointer, and reads exactly the block")]
        unsafe {
            _mm_loadu_si128(block.as_ptr().cast())
        }
    }

    /// Marks the bytes that begin an escape.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn is_escape(bytes: __m128i) -> __m128i {
        _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\'.cast_signed()))
    }

    /// Moves the bytes so that '"' is the first one after the control characters: its difference to ' ' is one bit.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn moved(bytes: __m128i) -> __m128i {
        _mm_xor_si128(bytes, _mm_set1_epi8((b'"' ^ b' ').cast_signed()))
    }

    /// Marks the moved bytes that end a string or are control characters.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn ends_or_controls(moved: __m128i) -> __m128i {
        _mm_cmpeq_epi8(_mm_min_epu8(moved, _mm_set1_epi8(b' '.cast_signed())), moved)
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod words {
    //! Blocks without vector instructions: as two machine words.

    /// The bytes of a machine word.
    const WORD: usize = size_of::<u64>();
    const ONES: u64 = u64::from_ne_bytes([1; WORD]);
    /// The highest bit of each byte.
    const HIGH_BITS: u64 = ONES << 7;

    /// Returns the fields of a block.
    #[inline(always)]
    pub(super) fn classify(bytes: u128) -> (usize, u32) {
        let (first, second) = (bytes as u64, (bytes >> 64) as u64);
        let plain = match plain_bytes(first) {
            WORD => WORD + plain_bytes(second),
            plain => plain,
        };
        let not_ascii = u32::from((first | second) & HIGH_BITS != 0);
        (plain, not_ascii)
    }

    /// Looks at the last `len` bytes, at least one.
    #[inline(always)]
    pub(super) fn look_at_last(bytes: u128, len: usize) -> (usize, u32) {
        // The bytes that follow then are 0, a control character.
        classify(bytes >> (8 * (size_of::<u128>() - len)))
    }

    /// Returns not 0 if a byte of several blocks is special, and not 0 if one is not ASCII.
    #[inline(always)]
    pub(super) fn look_at_all(blocks: &[[u8; 16]]) -> (u32, u32) {
        let (mut special, mut all) = (0, 0);
        // The compiler turns this into a few vector instructions for each block.
        for &byte in blocks.as_flattened() {
            special |= u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < 0x20);
            all |= byte;
        }
        (u32::from(special), u32::from(all >> 7))
    }

    /// Counts the bytes of a word before the first one that is special.
    fn plain_bytes(word: u64) -> usize {
        // The highest bit of a byte is set if the byte is below the limit, or above 127. A byte behind the first one
        // that is below may be wrong, but only the first one counts.
        let below = |bytes: u64, limit: u8| bytes.wrapping_sub(ONES * u64::from(limit));
        // The difference of '"' and ' ' is one bit, which makes '"' the first byte after the control characters.
        let end_or_control = below(word ^ (ONES * u64::from(b'"' ^ b' ')), b' ' + 1);
        let escape = below(word ^ (ONES * u64::from(b'\\')), 1);
        let special = (end_or_control | escape) & !word & HIGH_BITS;
        special.trailing_zeros() as usize / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_and_vectors_find_the_same(bytes in prop::array::uniform16(prop_oneof![
            4 => prop::char::range(' ', '~').prop_map(|char| char as u8),
            1 => any::<u8>(),
        ])) {
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            let plain = bytes.iter().position(is_special).unwrap_or(BLOCK);
            let block = Block::new(&bytes);
            for (found, not_ascii) in
                [(block.plain, block.not_ascii), words::classify(u128::from_le_bytes(bytes))]
            {
                prop_assert_eq!(found, plain);
                prop_assert_eq!(not_ascii == 0, bytes.is_ascii());
            }
            for len in 1..=BLOCK {
                let last = &bytes[BLOCK - len..];
                let plain = last.iter().position(is_special).unwrap_or(len);
                let block = Block::of_last(&bytes, len);
                for (found, not_ascii) in
                    [(block.plain, block.not_ascii), words::look_at_last(u128::from_le_bytes(bytes), len)]
                {
                    prop_assert_eq!(found, plain);
                    prop_assert_eq!(not_ascii == 0, last.is_ascii());
                }
            }
            let mut run = [b'x'; RUN];
            run[RUN - BLOCK..].copy_from_slice(&bytes);
            let (special, not_ascii) = words::look_at_all(run.as_chunks().0);
            for found in [plain_run(&run), (special == 0).then_some(not_ascii)] {
                prop_assert_eq!(found.map(|bits| bits == 0), (plain == BLOCK).then_some(bytes.is_ascii()));
            }
        }

        #[test]
        fn plain_bytes_are_skipped_from_any_place_in_text_of_any_length(
            bytes in prop::collection::vec(prop_oneof![
                40 => prop::char::range(' ', '~').prop_map(|char| char as u8),
                1 => any::<u8>(),
            ], 0..200),
            start in 0..40_usize,
        ) {
            let rest = bytes.get(start..).unwrap_or_default();
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            let plain = rest.iter().position(is_special).unwrap_or(rest.len());
            let (end, not_ascii) = skip_plain(&bytes, start);
            prop_assert_eq!(end, start + plain);
            // More may be counted, but nothing less.
            prop_assert!(not_ascii != 0 || rest[..plain].is_ascii());
            prop_assert!(not_ascii == 0 || !rest.is_ascii());
        }
    }
}
