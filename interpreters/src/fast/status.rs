//! Decoding of statuses and cell reports. The fold writes canonical statuses. Karmada sends the answers of
//! `InterpretStatus` without a change, so these statuses are canonical too. This module accepts only valid conditions.
//! If the fold writes such a condition again, the text is the same.

#![expect(
    clippy::inline_always,
    reason = "the names of fields are literals, see the module cursor"
)]

use serde_json::value::RawValue;

use super::cursor::{Cursor, NotCanonical};
use crate::fold::cells::{
    AggregatedItem, CellContribution, ItemCollector, NamedContribution, StatusFold,
};
use crate::fold::condition::{ConditionView, ConditionsText, RememberedConditions};
use crate::fold::status::{
    Generations, KnownStatus, RememberedCell, RequiredCounters, StatusView, saturated,
};

/// Usual number of conditions in a status: `Available` and `ReplicasReady`.
const USUAL_CONDITIONS: usize = 2;

/// Reads a list of `AggregatedStatusItem`, and returns the fold. `expected` is the expected number of items, and sets
/// the initial capacity.
pub(super) fn items<'a>(
    cursor: &mut Cursor<'a>,
    expected: usize,
) -> Result<StatusFold<'a>, NotCanonical> {
    let mut collector = ItemCollector::new(expected);
    cursor.list(|cursor| {
        let (name, cell) = cursor.canonical_or(item, item_of_any_form)?;
        collector.push(name, cell);
        Ok(())
    })?;
    Ok(collector.into_fold())
}

/// Reads one `AggregatedStatusItem`. The fields may have any order.
fn item<'a>(cursor: &mut Cursor<'a>) -> Result<NamedContribution<'a>, NotCanonical> {
    let (mut name, mut status, mut applied, mut message) = (None, None, None, None);
    cursor.open()?;
    loop {
        if cursor.field(r#""clusterName":"#) {
            set_once(&mut name, cursor.text()?)?;
        } else if cursor.field(r#""status":{}"#) {
            set_once(&mut status, None)?;
        } else if cursor.field(r#""status":"#) {
            set_once(&mut status, Some(status_view(cursor)?))?;
        } else if cursor.field(r#""applied":true"#) {
            set_once(&mut applied, true)?;
        } else if cursor.field(r#""applied":false"#) {
            set_once(&mut applied, false)?;
        } else if cursor.field(r#""appliedMessage":"#) {
            set_once(&mut message, cursor.text()?)?;
        } else if cursor.field(r#""health":"#) {
            cursor.text()?;
        } else {
            break;
        }
    }
    cursor.close()?;
    let report = status.flatten();
    if report.as_ref().is_some_and(|status| !status.is_valid()) {
        return Err(NotCanonical);
    }
    let contribution = CellContribution::new(
        report,
        applied.unwrap_or_default(),
        message.unwrap_or_default().into(),
    );
    Ok((name.unwrap_or_default().into(), contribution))
}

/// Reads one `AggregatedStatusItem` in any JSON form.
fn item_of_any_form<'a>(cursor: &mut Cursor<'a>) -> Result<NamedContribution<'a>, NotCanonical> {
    cursor.canonical_or(
        |cursor| {
            if !cursor.rest().starts_with('{') {
                return Err(NotCanonical);
            }
            let item: AggregatedItem<'_, KnownStatus<'_>> = cursor.value()?;
            Ok(item.contribution(|KnownStatus(status)| status.checked()))
        },
        // The status is malformed, or it has a field that the fold does not know.
        |cursor| cursor.value().map(CellContribution::of_item),
    )
}

/// Sets the value of a field. Returns an error if the field already has a value.
fn set_once<T>(field: &mut Option<T>, value: T) -> Result<(), NotCanonical> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(NotCanonical),
    }
}

/// Reads the former status of the hub object, in any form. Returns `None` if the status is empty or the CRD does not
/// allow it.
pub(super) fn former<'a>(cursor: &mut Cursor<'a>) -> Result<Option<StatusView<'a>>, NotCanonical> {
    cursor.canonical_or(
        |cursor| status_view(cursor).map(|status| status.checked()),
        former_of_any_form,
    )
}

/// Reads the former status in any JSON form.
fn former_of_any_form<'a>(cursor: &mut Cursor<'a>) -> Result<Option<StatusView<'a>>, NotCanonical> {
    cursor.canonical_or(
        |cursor| {
            let KnownStatus(status) = cursor.value()?;
            Ok(status.checked())
        },
        // The status is malformed, or it has a field that the fold does not know.
        |cursor| {
            let status: &RawValue = cursor.value()?;
            Ok(StatusView::parse(status.get()))
        },
    )
}

/// Reads a status with at least one field. The fields must be sorted. The entries of `status.cells` may have any form.
fn status_view<'a>(cursor: &mut Cursor<'a>) -> Result<Box<StatusView<'a>>, NotCanonical> {
    let start = cursor.clone();
    let mut status = Box::<StatusView<'_>>::default();
    cursor.open()?;
    let assigned_min_replicas = cursor.number(r#""assignedMinReplicas":"#)?;
    let assigned_replicas = cursor.number(r#""assignedReplicas":"#)?;
    // Only the federator uses the stamp.
    cursor.number(r#""cellRulesStamp":"#)?;
    if cursor.field(r#""cells":"#) {
        let mut cells = Vec::new();
        cursor.list(|cursor| {
            cells.push(cursor.canonical_or(remembered_cell, Cursor::value)?);
            Ok(())
        })?;
        status.set_cells(cells);
    }
    if cursor.field(r#""conditions":"#) {
        (status.conditions, status.conditions_text) = conditions(cursor)?;
        status.take_cells_reporting();
    }
    let current_replicas = counter(cursor, r#""currentReplicas":"#)?;
    let desired_replicas = counter(cursor, r#""desiredReplicas":"#)?;
    let generation = cursor.number(r#""generation":"#)?;
    let observed_generation = cursor.number(r#""observedGeneration":"#)?;
    status.required_counters = RequiredCounters {
        current_replicas,
        desired_replicas,
        ready_replicas: counter(cursor, r#""readyReplicas":"#)?,
        replicas: counter(cursor, r#""replicas":"#)?,
    };
    if cursor.field(r#""reportingCell":"#) {
        status.set_reporting_cell(Some(cursor.text()?.into()));
    }
    status.generations = Generations {
        assigned_min_replicas: assigned_min_replicas.map(saturated),
        assigned_replicas: assigned_replicas.map(saturated),
        generation,
        observed_generation,
        resource_template_generation: cursor.number(r#""resourceTemplateGeneration":"#)?,
    };
    if cursor.field(r#""selector":"#) {
        status.set_selector(Some(cursor.text()?.into()));
    }
    if cursor.field(r#""suspended":true"#) {
        status.set_suspended(Some(true));
    } else if cursor.field(r#""suspended":false"#) {
        status.set_suspended(Some(false));
    }
    let updated_replicas = cursor.number(r#""updatedReplicas":"#)?;
    status.set_updated_replicas(updated_replicas.map(saturated));
    cursor.close()?;
    match cursor.since(&start) {
        None | Some("{}") => Err(NotCanonical),
        Some(_) => Ok(status),
    }
}

/// Reads an entry of `status.cells`.
fn remembered_cell<'a>(cursor: &mut Cursor<'a>) -> Result<RememberedCell<'a>, NotCanonical> {
    cursor.open()?;
    let assigned_replicas = int32(cursor.number(r#""assignedReplicas":"#)?)?;
    let mut remembered = RememberedConditions::default();
    if cursor.field(r#""conditions":"#) {
        let (list, text) = conditions(cursor)?;
        remembered = RememberedConditions::new(list, text);
    }
    let current_replicas = required(cursor, r#""currentReplicas":"#)?;
    let desired_replicas = required(cursor, r#""desiredReplicas":"#)?;
    if !cursor.field(r#""name":"#) {
        return Err(NotCanonical);
    }
    let cell = RememberedCell {
        assigned_replicas,
        conditions: remembered,
        current_replicas,
        desired_replicas,
        name: cursor.text()?.into(),
        ready_replicas: required(cursor, r#""readyReplicas":"#)?,
        replicas: required(cursor, r#""replicas":"#)?,
        resource_template_generation: cursor.number(r#""resourceTemplateGeneration":"#)?,
        template_replicas: int32(cursor.number(r#""templateReplicas":"#)?)?,
        updated_replicas: int32(cursor.number(r#""updatedReplicas":"#)?)?,
    };
    cursor.close()?;
    Ok(cell)
}

/// Reads conditions. Returns the conditions and their text.
fn conditions<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<(Vec<ConditionView<'a>>, ConditionsText<'a>), NotCanonical> {
    let start = cursor.clone();
    let mut conditions = Vec::new();
    cursor.list(|cursor| {
        if conditions.is_empty() {
            conditions.reserve_exact(USUAL_CONDITIONS);
        }
        conditions.push(condition(cursor)?);
        Ok(())
    })?;
    // The fold never writes an empty list.
    let text = cursor.since(&start).filter(|_| !conditions.is_empty());
    Ok((conditions, ConditionsText(text)))
}

/// Reads a valid condition in the form that the fold writes.
fn condition<'a>(cursor: &mut Cursor<'a>) -> Result<ConditionView<'a>, NotCanonical> {
    cursor.literal(r#"{"lastTransitionTime":"#)?;
    let last_transition_time = cursor.text()?.into();
    cursor.literal(r#","message":"#)?;
    let message = cursor.text()?.into();
    let observed_generation = cursor.number(r#""observedGeneration":"#)?;
    cursor.literal(r#","reason":"#)?;
    let reason = cursor.text()?.into();
    cursor.literal(r#","status":"#)?;
    let status = match cursor.text()? {
        "True" => api::ConditionStatus::True,
        "False" => api::ConditionStatus::False,
        "Unknown" => api::ConditionStatus::Unknown,
        _ => return Err(NotCanonical),
    };
    cursor.literal(r#","type":"#)?;
    let condition = ConditionView {
        last_transition_time,
        message,
        observed_generation,
        reason,
        status,
        type_: cursor.text()?.into(),
    };
    cursor.literal("}")?;
    match condition.is_valid() {
        true => Ok(condition),
        false => Err(NotCanonical),
    }
}

/// Reads a counter. An absent counter is 0.
#[inline(always)]
fn counter(cursor: &mut Cursor<'_>, name: &'static str) -> Result<i32, NotCanonical> {
    Ok(saturated(cursor.number(name)?.unwrap_or_default()))
}

#[inline(always)]
fn required(cursor: &mut Cursor<'_>, name: &'static str) -> Result<i32, NotCanonical> {
    int32(cursor.number(name)?)?.ok_or(NotCanonical)
}

#[inline]
fn int32(number: Option<i64>) -> Result<Option<i32>, NotCanonical> {
    number
        .map(i32::try_from)
        .transpose()
        .map_err(|_| NotCanonical)
}
