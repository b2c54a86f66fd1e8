//! Counts the memory that the answer to a request needs. Hostile bodies must not need more than their share.

#![allow(
    clippy::cast_precision_loss,
    clippy::format_push_string,
    reason = "tests"
)]

use std::collections::BTreeSet;
use std::hint::black_box;

use fuzz::hostile;
use jiff::Timestamp;
use webhooks::admission;

/// Sizes of the requests, in bytes. A list that grows needs the most memory directly after it has grown. The sizes
/// therefore are not powers of two only.
const SIZES: [usize; 6] = [1 << 10, 12_000, 58_000, 1 << 16, 80_000, 300_000];

/// The memory that the answer to one request needs.
struct Measured {
    name: String,
    /// Size of the request, in bytes.
    size: usize,
    /// Maximum of `peak`, in bytes.
    bound: usize,
    /// Memory in use at the same time, in bytes.
    peak: u64,
    /// Sum of all allocations, in bytes.
    total: u64,
}

impl Measured {
    fn of(name: String, body: &[u8], bound: usize, answer: impl FnOnce(&[u8])) -> Self {
        let counted = allocation_counter::measure(|| answer(body));
        Self {
            name,
            size: body.len(),
            bound,
            peak: counted.bytes_max,
            total: counted.bytes_total,
        }
    }

    fn assert_within(peaks: &[Self]) {
        let mut failed = String::new();
        for Self {
            name,
            size,
            bound,
            peak,
            total,
        } in peaks
        {
            if *peak > *bound as u64 {
                let times = |bytes: u64| bytes as f64 / *size as f64;
                failed += &format!(
                    "{size:8} {:8.1} {:8.1} {name}\n",
                    times(*peak),
                    times(*total)
                );
            }
        }
        assert!(
            failed.is_empty(),
            "bytes, peak and total per byte, name:\n{failed}"
        );
    }
}

#[test]
fn no_interpretation_needs_more_than_its_share_of_memory() {
    let interpret = |body: &[u8]| {
        let _ = black_box(interpreters::interpret(body, Timestamp::UNIX_EPOCH));
    };
    let mut peaks = Vec::new();
    for hostile in SIZES.into_iter().flat_map(hostile::interpretations) {
        // A blank before the first character prevents the fast way.
        let general = [b" ".as_slice(), &hostile.body].concat();
        let of = |name: String, body: &[u8]| {
            Measured::of(name, body, interpreters::peak_bytes(body.len()), interpret)
        };
        peaks.push(of(hostile.name.to_owned(), &hostile.body));
        peaks.push(of(format!("{} (general)", hostile.name), &general));
    }
    Measured::assert_within(&peaks);
}

#[test]
fn no_admission_needs_more_than_its_share_of_memory() {
    let cities: BTreeSet<String> = ["DFW".to_owned()].into();
    let mut peaks = Vec::new();
    for hostile in SIZES.into_iter().flat_map(hostile::admissions) {
        let bound = admission::peak_bytes(&hostile.body) + admission::ANSWER_BYTES;
        let name = hostile.name.to_owned();
        peaks.push(Measured::of(name, &hostile.body, bound, |body| {
            let _ = black_box(admission::validate_alone(body, &cities));
        }));
    }
    Measured::assert_within(&peaks);
}
