//! Files of orders, and numbers that look random but are the same in every run.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Writes a file with this heading and so many rows, and returns its path.
pub fn rows(directory: &Path, name: &str, heading: &str, count: usize, row: impl Fn(usize) -> String) -> String {
    let path = directory.join(name);
    let mut out = BufWriter::new(File::create(&path).unwrap());
    writeln!(out, "{heading}").unwrap();
    for index in 0..count {
        writeln!(out, "{}", row(index)).unwrap();
    }
    out.flush().unwrap();
    path.to_str().unwrap().to_owned()
}

/// A number that looks random, for a row (splitmix64).
pub fn scattered(index: usize) -> u64 {
    let mut mixed = (index as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A UUID of version 4 for a row.
pub fn uuid(index: usize) -> String {
    uuid::Builder::from_random_bytes((u128::from(scattered(index)) << 64 | u128::from(scattered(!index))).to_be_bytes())
        .into_uuid()
        .to_string()
}
