//! The times after which the quota of an Instance is looked at again.

use std::time::Duration;

use jiff::SignedDuration;

/// Intervals that grow with the time that has passed: each is used up to this time.
pub(in crate::quota) type Intervals = [(SignedDuration, Duration)];
/// The interval after the last of [`Intervals`].
const LAST: Duration = Duration::from_mins(5);
/// A create that got no answer can still make a claim for this time.
pub(in crate::quota) const LATE: Duration = Duration::from_mins(1);
/// How often an undecided claim is read if the watch reports its decision, by its age. A watch can break without a sign.
pub(super) const WATCHED: &Intervals = &[
    (SignedDuration::from_mins(5), Duration::from_secs(15)),
    (SignedDuration::from_mins(10), Duration::from_mins(1)),
];
/// How often an undecided claim is read if there is no watch, by its age.
pub(super) const POLL: &Intervals = &[
    (SignedDuration::from_mins(1), Duration::from_secs(1)),
    (SignedDuration::from_mins(5), Duration::from_secs(15)),
    (SignedDuration::from_mins(10), Duration::from_mins(1)),
];
/// How often a denied claim is made anew, by the time since the Instance was denied.
pub(in crate::quota) const RETRY: &Intervals = &[
    (SignedDuration::from_mins(5), Duration::from_secs(15)),
    (SignedDuration::from_mins(10), Duration::from_mins(1)),
];
/// How often a claim that the API server refuses is tried again, by the age of the Instance.
pub(super) const REFUSED: &Intervals = &[
    (SignedDuration::from_mins(5), Duration::from_secs(15)),
    (SignedDuration::from_hours(1), Duration::from_mins(1)),
];

/// How often the claims are looked for that Instances have left in a project, by the time since the first try without
/// an answer that there are none.
pub(in crate::quota) const SWEPT: &Intervals = &[
    (SignedDuration::from_mins(10), Duration::from_secs(10)),
    (SignedDuration::from_hours(1), Duration::from_mins(1)),
];

/// Returns the interval to use after this time.
pub(in crate::quota) fn interval(intervals: &Intervals, passed: SignedDuration) -> Duration {
    let mut intervals = intervals.iter();
    let found = intervals.find(|(until, _)| passed < *until);
    found.map_or(LAST, |(_, interval)| *interval)
}
