//! Files for tests: right at first, then changed in one place.

/// Where payloads begin in every sample; the sections fit below it.
pub const PAYLOADS: u64 = 4096;

#[derive(Clone)]
pub struct Entry {
    pub name: Vec<u8>,
    pub storage: u8,
    pub tile: u8,
    pub sparsity: u8,
    pub shape: Vec<u64>,
    pub data: (u64, u64),
    pub residual: (u64, u64),
    pub scales: (u64, u64),
    pub block_size: u16,
    pub sparsity_ratio: f32,
}

pub struct Sample {
    pub flags: u32,
    pub alignment: u16,
    pub appendix: u64,
    pub metadata: Vec<(Vec<u8>, u8, Vec<u8>)>,
    pub entries: Vec<Entry>,
    payloads: Vec<u8>,
}

impl Sample {
    pub fn new() -> Self {
        Sample {
            flags: 0x11,
            alignment: 128,
            appendix: 0,
            metadata: vec![(b"general.name".to_vec(), 1, b"sample".to_vec())],
            entries: Vec::new(),
            payloads: Vec::new(),
        }
    }

    /// A file of one tensor.
    pub fn of(storage: u8, sparsity: u8, shape: &[u64], data: &[u8]) -> Self {
        let mut sample = Sample::new();
        sample.add("t", storage, shape, data).sparsity = sparsity;
        sample
    }

    /// Places bytes on the next multiple of the alignment.
    pub fn place(&mut self, bytes: &[u8]) -> (u64, u64) {
        let alignment = usize::from(self.alignment);
        self.payloads.resize(self.payloads.len().next_multiple_of(alignment), 0);
        let offset = PAYLOADS + self.payloads.len() as u64;
        self.payloads.extend(bytes);
        (offset, bytes.len() as u64)
    }

    pub fn add(&mut self, name: &str, storage: u8, shape: &[u64], data: &[u8]) -> &mut Entry {
        let data = self.place(data);
        self.entries.push(Entry {
            name: name.into(),
            storage,
            tile: 0,
            sparsity: 0,
            shape: shape.to_vec(),
            data,
            residual: (0, 0),
            scales: (0, 0),
            block_size: 32,
            sparsity_ratio: 0.0,
        });
        self.entries.last_mut().unwrap()
    }

    /// Adds `scales` and `residual` to the tensor that was added last.
    pub fn beside(&mut self, scales: &[u8], residual: &[u8], block_size: u16) -> &mut Self {
        let (scales, residual) = (self.place(scales), self.place(residual));
        let entry = self.entries.last_mut().unwrap();
        (entry.scales, entry.residual, entry.block_size) = (scales, residual, block_size);
        self
    }

    fn metadata_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, tag, value) in &self.metadata {
            bytes.extend((key.len() as u16).to_le_bytes());
            bytes.extend(key);
            bytes.push(*tag);
            bytes.extend((value.len() as u32).to_le_bytes());
            bytes.extend(value);
        }
        bytes
    }

    fn toc_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in &self.entries {
            bytes.extend((entry.name.len() as u16).to_le_bytes());
            bytes.extend(&entry.name);
            let ndim = entry.shape.len() as u8;
            bytes.extend([entry.storage, entry.tile, entry.sparsity, ndim]);
            entry.shape.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
            for (offset, size) in [entry.data, entry.residual, entry.scales] {
                bytes.extend(offset.to_le_bytes());
                bytes.extend(size.to_le_bytes());
            }
            bytes.extend(entry.block_size.to_le_bytes());
            bytes.extend(entry.sparsity_ratio.to_le_bytes());
        }
        bytes
    }

    /// Offset of the table of contents.
    pub fn toc_at(&self) -> u64 {
        128 + self.metadata_bytes().len() as u64
    }

    pub fn bytes(&self) -> Vec<u8> {
        let (metadata, toc) = (self.metadata_bytes(), self.toc_bytes());
        let mut file = vec![0u8; 128];
        file[..4].copy_from_slice(b"HKNT");
        file[4] = 1;
        file[8..12].copy_from_slice(&self.flags.to_le_bytes());
        file[12..14].copy_from_slice(&self.alignment.to_le_bytes());
        let fields = [
            self.entries.len() as u64,
            self.metadata.len() as u64,
            128,
            metadata.len() as u64,
            self.toc_at(),
            toc.len() as u64,
            PAYLOADS,
            self.appendix,
        ];
        for (at, field) in fields.iter().enumerate() {
            set(&mut file, 0x10 + 8 * at, *field);
        }
        file[0x58] = 1;
        file.extend(metadata);
        file.extend(toc);
        assert!(file.len() as u64 <= PAYLOADS);
        file.resize(PAYLOADS as usize, 0);
        file.extend(&self.payloads);
        file
    }
}

/// Writes a u64 into a file.
pub fn set(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// An appendix record with its padding.
pub fn record(kind: u8, name: &[u8], data: &[u8], parent_hash: [u8; 32], crc: u32) -> Vec<u8> {
    let mut bytes = vec![0u8; 80];
    bytes[0] = kind;
    bytes[2] = name.len() as u8;
    bytes[16..48].copy_from_slice(&parent_hash);
    bytes[68..72].copy_from_slice(&crc.to_le_bytes());
    set(&mut bytes, 72, data.len() as u64);
    bytes.extend(name);
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}
