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

/// Of split-scale `mxfp4`: 2^(e-127), the first of which is subnormal and the last infinite.
pub(super) static E8M0: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut e = 0;
    while e < 256 {
        scales[e] = f32::from_bits(if e == 0 { 0x0040_0000 } else { (e as u32) << 23 });
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
        scales[d] = if d == 0x7F { 0.0 } else { magnitude(d) * 0.5 };
        d += 1;
    }
    scales
};

/// Of split-scale `nvfp4`: fp8_e4m3.
pub(super) static E4M3: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let signed = if code < 128 { magnitude(code) } else { -magnitude(code) };
        scales[code] = if code & 0x7F == 0x7F { f32::NAN } else { signed };
        code += 1;
    }
    scales
};

/// The magnitude of an E4M3, in which all ones are a number like the others.
const fn magnitude(code: usize) -> f32 {
    let bits = (code as u32 & 0x7F) << 20;
    // Subnormals are whole numbers of 2^-9; the others take a bias larger by 120.
    if bits < 1 << 23 { (code & 7) as f32 / 512.0 } else { f32::from_bits(bits + (120 << 23)) }
}
