//! The letters that stand for bytes in the token texts of byte-level vocabularies: a
//! printable Latin-1 character stands for itself, and the other 68 bytes are numbered
//! from U+0100 on.

/// The letter that stands for `byte`.
pub(super) fn letter(byte: u8) -> char {
    let code = u32::from(byte);
    let moved = match byte {
        0x00..=0x20 => 0x100 + code,
        0x7F..=0xA0 => 0x121 + code - 0x7F,
        0xAD => 0x143,
        _ => code,
    };
    char::from_u32(moved).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that `letter` stands for, if it is one of the 256.
pub(super) fn byte(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    let byte = match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_bytes_are_pairs() {
        let mut letters = alloc::collections::BTreeSet::new();
        for value in 0..=u8::MAX {
            assert_eq!(byte(letter(value)), Some(value));
            assert!(!letter(value).is_whitespace() && !letter(value).is_control());
            letters.insert(letter(value));
        }
        assert_eq!(letters.len(), 256);
        assert_eq!((letter(b' '), letter(b'\n'), letter(b'A')), ('Ġ', 'Ċ', 'A'));
        assert_eq!((1..0x11_0000).filter_map(char::from_u32).filter_map(byte).count(), 256);
    }
}
