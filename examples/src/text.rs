//! Bytes of tokens to text.

use alloc::string::String;
use alloc::vec::Vec;

/// Puts the bytes of consecutive tokens together to text. A character that spreads over
/// several tokens comes out when its last byte is there, never in part; bytes that can
/// become no character come out as U+FFFD.
///
/// ```
/// use hk_examples::TextStream;
/// let mut stream = TextStream::default();
/// assert_eq!(stream.push(b"caf\xC3"), "caf");
/// assert_eq!(stream.push(b"\xA9!"), "é!");
/// assert_eq!(stream.finish(), "");
/// ```
#[derive(Clone, Debug, Default)]
pub struct TextStream {
    pending: Vec<u8>,
}

impl TextStream {
    /// Takes the bytes of the next token and gives the text that is now complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut kept = 0;
        let mut chunks = self.pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_unfinished(invalid) {
                kept = invalid.len();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.pending.drain(..self.pending.len() - kept);
        text
    }

    /// Ends the text: what is left of an unfinished character is U+FFFD.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// Whether `bytes` could be the start of a character.
fn is_unfinished(bytes: &[u8]) -> bool {
    !bytes.is_empty() && core::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}
