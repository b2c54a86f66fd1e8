//! Reading statuses in the form in which the fold writes them, which is also that in which Karmada passes on what
//! `InterpretStatus` answers. Conditions that are read here are valid, and written again they are the same text.

use super::condition::{self, Conditions};
use super::report::{CellMemory, Counters, Generations, Report, saturated};
use super::{Contribution, Gathered, Named, StatusFold};
use crate::cursor::{Cursor, OtherForm};

type Read<T> = Result<T, OtherForm>;

/// The fold over a list of `AggregatedStatusItem`.
pub(super) fn fold<'a>(cursor: &mut Cursor<'a>, expected: usize) -> Read<StatusFold<'a>> {
    let mut gathered = Gathered::new(expected);
    cursor.list(|cursor| {
        gathered.push(cursor.either(item, |cursor| cursor.value().map(Contribution::of_item))?);
        Ok(())
    })?;
    Ok(gathered.fold())
}

/// One `AggregatedStatusItem`.
fn item<'a>(cursor: &mut Cursor<'a>) -> Read<Named<'a>> {
    let (mut name, mut status, mut applied, mut message) = (None, None, None, None);
    cursor.open()?;
    loop {
        if cursor.field(br#""clusterName":"#) {
            once(&mut name, cursor.text()?)?;
        } else if cursor.field(br#""status":"#) {
            once(&mut status, report(cursor)?)?;
        } else if cursor.field(br#""applied":true"#) {
            once(&mut applied, true)?;
        } else if cursor.field(br#""applied":false"#) {
            once(&mut applied, false)?;
        } else if cursor.field(br#""appliedMessage":"#) {
            once(&mut message, cursor.text()?)?;
        } else if cursor.field(br#""health":"#) {
            cursor.text()?;
        } else {
            break;
        }
    }
    cursor.close()?;
    let report = match status {
        Some(status) => Some(status.checked().ok_or(OtherForm)?),
        None => None,
    };
    let contribution = Contribution::new(
        report,
        applied.unwrap_or_default(),
        message.unwrap_or_default().into(),
    );
    Ok((name.unwrap_or_default().into(), contribution))
}

/// Keeps the value of a field that must not come twice.
fn once<T>(field: &mut Option<T>, value: T) -> Read<()> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(OtherForm),
    }
}

/// A status with at least one field, its fields sorted. Its `status.cells` may have other forms.
pub(super) fn report<'a>(cursor: &mut Cursor<'a>) -> Read<Report<'a>> {
    let start = cursor.clone();
    let mut report = Report::default();
    cursor.open()?;
    let assigned_min_replicas = cursor.number(br#""assignedMinReplicas":"#)?;
    let assigned_replicas = cursor.number(br#""assignedReplicas":"#)?;
    if cursor.field(br#""cells":"#) {
        cursor.list(|cursor| {
            report.cells.push(cell(cursor)?);
            Ok(())
        })?;
    }
    if cursor.field(br#""conditions":"#) {
        (report.conditions, report.written) = condition::read_all(cursor)?;
        report.take_own();
    }
    let current_replicas = counter(cursor, br#""currentReplicas":"#)?;
    let desired_replicas = counter(cursor, br#""desiredReplicas":"#)?;
    let generation = cursor.number(br#""generation":"#)?;
    let observed_generation = cursor.number(br#""observedGeneration":"#)?;
    report.counters = Counters {
        current_replicas,
        desired_replicas,
        ready_replicas: counter(cursor, br#""readyReplicas":"#)?,
        replicas: counter(cursor, br#""replicas":"#)?,
    };
    report.generations = Generations {
        assigned_min_replicas,
        assigned_replicas,
        generation,
        observed_generation,
        resource_template_generation: cursor.number(br#""resourceTemplateGeneration":"#)?,
    };
    cursor.close()?;
    match cursor.since(&start) {
        None | Some("{}") => Err(OtherForm),
        Some(_) => Ok(report),
    }
}

impl<'a> Report<'a> {
    /// Reads a status as [`parse`](Self::parse) does, faster where it is written as usual.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Option<Self>, OtherForm> {
        let report = cursor.either(|cursor| report(cursor).map(Some), Cursor::value)?;
        Ok(report.and_then(Self::checked))
    }
}

/// An entry of `status.cells`.
fn cell<'a>(cursor: &mut Cursor<'a>) -> Read<CellMemory<'a>> {
    cursor.either(canonical_cell, Cursor::value)
}

fn canonical_cell<'a>(cursor: &mut Cursor<'a>) -> Read<CellMemory<'a>> {
    cursor.open()?;
    let assigned_replicas = small(cursor.number(br#""assignedReplicas":"#)?)?;
    let mut remembered = Conditions::default();
    if cursor.field(br#""conditions":"#) {
        let start = cursor.clone();
        cursor.list(|cursor| condition::read(cursor).map(drop))?;
        let written = cursor.since(&start).filter(|text| *text != "[]");
        remembered = Conditions::Written(written.ok_or(OtherForm)?);
    }
    let current_replicas = required(cursor, br#""currentReplicas":"#)?;
    let desired_replicas = required(cursor, br#""desiredReplicas":"#)?;
    if !cursor.field(br#""name":"#) {
        return Err(OtherForm);
    }
    let cell = CellMemory {
        assigned_replicas,
        conditions: remembered,
        current_replicas,
        desired_replicas,
        name: cursor.text()?.into(),
        ready_replicas: required(cursor, br#""readyReplicas":"#)?,
        replicas: required(cursor, br#""replicas":"#)?,
        resource_template_generation: cursor.number(br#""resourceTemplateGeneration":"#)?,
        template_replicas: small(cursor.number(br#""templateReplicas":"#)?)?,
    };
    cursor.close()?;
    Ok(cell)
}

/// A counter; where it is absent it is 0.
#[inline]
fn counter<const N: usize>(cursor: &mut Cursor<'_>, name: &[u8; N]) -> Read<i32> {
    Ok(saturated(cursor.number(name)?.unwrap_or_default()))
}

#[inline]
fn required<const N: usize>(cursor: &mut Cursor<'_>, name: &[u8; N]) -> Read<i32> {
    small(cursor.number(name)?)?.ok_or(OtherForm)
}

#[inline]
fn small(number: Option<i64>) -> Read<Option<i32>> {
    number.map(i32::try_from).transpose().map_err(|_| OtherForm)
}
