use hk_core::format::seal::{Seal, Sealer, verify};
use hk_core::{Flags, Header};

/// A file of `body` after a header, sealed.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut header = Header::empty();
    header.flags = header.flags.with(Flags::SEALED);
    // Bytes of the reserved field after the digest are part of the file like any other.
    header.reserved[32..].fill(0x77);
    let mut sealer = Sealer::new(&header);
    body.chunks(3).for_each(|chunk| sealer.update(chunk));
    let digest = sealer.finish();
    header.reserved[..32].copy_from_slice(&digest);
    header.checksum = u64::from_le_bytes(digest[..8].try_into().unwrap());
    [&header.to_bytes()[..], body].concat()
}

fn state(file: &[u8]) -> Seal {
    verify(file, &Header::parse(file).unwrap())
}

#[test]
fn a_change_of_any_byte_breaks_it() {
    let mut file = sealed(b"body");
    assert_eq!(state(&file), Seal::Intact);
    for at in 0..file.len() {
        // Magic, version and the two flags are what reading a seal depends on. Miri takes a
        // second for a digest.
        if at < 10 || (cfg!(miri) && at % 20 != 0) {
            continue;
        }
        file[at] ^= 1;
        assert_eq!(state(&file), Seal::Broken, "byte {at}");
        file[at] ^= 1;
    }
    assert_eq!(state(&file[..file.len() - 1]), Seal::Broken);
    assert_eq!(state(&[&file[..], b"x"].concat()), Seal::Broken);
    assert_eq!(state(&file), Seal::Intact);
}

#[test]
fn without_the_flag_there_is_none() {
    let mut file = sealed(b"");
    assert_eq!(state(&file), Seal::Intact);
    file[9] &= !2;
    assert_eq!(state(&file), Seal::None);
}

#[test]
fn the_digest_is_sha256_of_the_file_with_its_own_place_zero() {
    let mut header = Header::empty();
    header.flags = Flags(0x201);
    let blank = Sealer::new(&header).finish();
    header.checksum = 5;
    header.reserved[..32].fill(9);
    assert_eq!(Sealer::new(&header).finish(), blank);
    header.reserved[32] = 9;
    assert_ne!(Sealer::new(&header).finish(), blank);
}
