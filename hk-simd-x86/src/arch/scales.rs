//! What the scale bytes of 4-bit floats stand for: a look-up takes a load, computing it a
//! fifth of a block's time.

/// Of mxfp4, by `e`: 2^(e-128), the first two of which are subnormal.
pub(super) static MXFP4: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut e = 0;
    while e < 256 {
        scales[e] = f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e as u32 - 1) << 23 });
        e += 1;
    }
    scales
};

/// Of nvfp4, by `d`: half of an unsigned E4M3, of which the sign bit is not looked at and 0x7F
/// stands for 0.
pub(super) static NVFP4: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut d = 0;
    while d < 256 {
        let magnitude = (d as u32 & 0x7F) << 20;
        // Subnormals are whole numbers of 2^-9; the others take a bias larger by 120.
        let scale = if magnitude < 1 << 23 {
            (d & 7) as f32 / 512.0
        } else {
            f32::from_bits(magnitude + (120 << 23))
        };
        scales[d] = if d == 0x7F { 0.0 } else { scale * 0.5 };
        d += 1;
    }
    scales
};
