//! Text from untrusted files, made fit for a screen, and numbers made fit for people.

/// Whether a character could move the cursor, change colours or turn the text around.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with control characters escaped.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hostile(c) {
            clean.extend(c.escape_debug());
        } else {
            clean.push(c);
        }
    }
    clean
}

/// The first `limit` characters of `text`, cleaned, with an ellipsis where some are left
/// out. Looks at no more than it shows.
pub fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => clean(text),
        Some((end, _)) => clean(&text[..end]) + "…",
    }
}

/// The beginning of `bytes` as text in quotes, escaped: at least `limit` characters where
/// there are as many. Looks at no more than it needs for them.
pub fn quote(bytes: &[u8], limit: usize) -> String {
    // A character takes 4 bytes at most.
    let shown = &bytes[..bytes.len().min(limit * 4)];
    format!("{:?}", String::from_utf8_lossy(shown))
}

/// A number of bytes for people: `576 B`, `1.5 KiB`, `27.0 MiB`.
pub fn size(bytes: u128) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// A count with its noun: `1 tensor`, `2 tensors`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Bits of `bytes` for each of `weights`, `-` where there are none.
pub fn bits_per_weight(bytes: u128, weights: u128) -> String {
    if weights == 0 {
        return "-".to_owned();
    }
    format!("{:.3}", bytes as f64 * 8.0 / weights as f64)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_screen() {
        assert_eq!(clean("plain größe 日本"), "plain größe 日本");
        assert_eq!(clean("\x1b[31mred\n"), "\\u{1b}[31mred\\n");
        assert_eq!(clean("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("größe", 5), "größe");
        assert_eq!(shorten("größer", 5), "größe…");
        assert_eq!(shorten("", 0), "");
    }

    #[test]
    fn a_quote_is_no_longer_than_it_needs_to_be() {
        assert_eq!(quote(b"a\"\xFF", 5), "\"a\\\"\u{fffd}\"");
        let quoted = quote("\u{1F600}".repeat(1_000_000).as_bytes(), 8);
        assert_eq!(quoted.chars().count(), 8 + 2);
    }

    #[test]
    fn sizes_change_unit_where_the_digits_would_run_over() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1024), "1.0 KiB");
        assert_eq!(size(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(size(1 << 64), "16.0 EiB");
        assert_eq!(bits_per_weight(144, 256), "4.500");
        assert_eq!(hex(&[0, 0xAF]), "00af");
    }
}
