//! The seal: a file's digest of itself (payloads.md, "Seal").

use sha2::{Digest, Sha256};

use crate::format::{Flags, HEADER_LEN, Header};

/// What a file says of its own digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// It carries none.
    None,
    /// It carries the right one.
    Intact,
    /// Its bytes changed after it was sealed.
    Broken,
}

/// Hashes a file piece by piece, its digest's own place read as zeros.
#[derive(Clone)]
pub struct Sealer {
    hash: Sha256,
}

impl Sealer {
    /// Starts with the file's first 128 bytes.
    pub fn new(header: &Header) -> Self {
        let mut blank = *header;
        blank.checksum = 0;
        blank.reserved.iter_mut().take(32).for_each(|byte| *byte = 0);
        let mut hash = Sha256::new();
        hash.update(blank.to_bytes());
        Sealer { hash }
    }

    /// Takes the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// The digest.
    pub fn finish(self) -> [u8; 32] {
        self.hash.finalize().into()
    }
}

/// Checks the seal of a whole file; reads every byte of a sealed one.
pub fn verify(file: &[u8], header: &Header) -> Seal {
    if !header.flags.contains(Flags::SEALED) {
        return Seal::None;
    }
    let mut sealer = Sealer::new(header);
    sealer.update(file.get(HEADER_LEN..).unwrap_or_default());
    let digest = sealer.finish();
    let stated = header.reserved.first_chunk::<32>();
    let checksum = digest.first_chunk().map(|first| u64::from_le_bytes(*first));
    if stated == Some(&digest) && checksum == Some(header.checksum) {
        Seal::Intact
    } else {
        Seal::Broken
    }
}
