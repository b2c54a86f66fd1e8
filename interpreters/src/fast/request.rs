//! Decoding of the envelope of a request. In a canonical request, the operation comes before the object. The object can
//! therefore be decoded in the way that the operation needs.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::cursor::{Cursor, NotCanonical};
use crate::review::{InterpretedKind, Operation, RequestMeta};

/// A request that was read up to the start of its object.
pub(super) struct FastRequest<'a> {
    pub(super) kind: InterpretedKind,
    pub(super) operation: Operation,
    uid: &'a str,
    name: &'a str,
    namespace: &'a str,
    cursor: Cursor<'a>,
}

/// The parts of a request from the object on. `O` is the type of the object, `I` the type of the cell reports, and `P`
/// the type of the observed object.
pub(super) struct Payload<O, I, P> {
    pub(super) object: O,
    pub(super) observed_object: Option<P>,
    pub(super) replicas: i32,
    pub(super) aggregated_status: Option<I>,
}

impl<'a> FastRequest<'a> {
    /// Reads the request up to the start of the object.
    pub(super) fn new(body: &'a str) -> Result<Self, NotCanonical> {
        let mut cursor = Cursor::new(body);
        cursor.literal(r#"{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{"uid":"#)?;
        let uid = Some(cursor.text()?).filter(|uid| !uid.is_empty());
        cursor
            .literal(r#","kind":{"group":"compute.datumapis.com","version":"v1alpha","kind":"#)?;
        let kind = cursor.text()?;
        cursor.literal("}")?;
        let name = optional(&mut cursor, r#""name":"#)?;
        let namespace = optional(&mut cursor, r#""namespace":"#)?;
        cursor.literal(r#","operation":"#)?;
        let operation = cursor.text()?;
        cursor.literal(r#","object":"#)?;
        Ok(Self {
            kind: InterpretedKind::from_name(kind).ok_or(NotCanonical)?,
            operation: Operation::from_name(operation).ok_or(NotCanonical)?,
            uid: uid.ok_or(NotCanonical)?,
            name,
            namespace,
            cursor,
        })
    }

    pub(super) fn meta(&self) -> RequestMeta<'a> {
        RequestMeta {
            uid: self.uid,
            operation: Some(self.operation),
            kind: Some(self.kind),
            namespace: self.namespace,
            name: self.name,
        }
    }

    /// Reads the object and the fields after it. Skips the cell reports.
    pub(super) fn read<O: Deserialize<'a>, P: Deserialize<'a>>(
        self,
    ) -> Result<Payload<O, &'a RawValue, P>, NotCanonical> {
        self.read_with(Cursor::value, |cursor, _| cursor.value())
    }

    /// Reads the object with `object`, and the cell reports with `items`. Also reads the other fields after the object.
    pub(super) fn read_with<O, I, P: Deserialize<'a>>(
        self,
        object: impl FnOnce(&mut Cursor<'a>) -> Result<O, NotCanonical>,
        items: impl FnOnce(&mut Cursor<'a>, &O) -> Result<I, NotCanonical>,
    ) -> Result<Payload<O, I, P>, NotCanonical> {
        let mut cursor = self.cursor;
        let object = object(&mut cursor)?;
        let observed_object = cursor
            .optional_value::<Option<P>>(r#""observedObject":"#)?
            .flatten();
        let replicas = match cursor.field(r#""replicas":"#) {
            true => i32::try_from(cursor.integer()?).map_err(|_| NotCanonical)?,
            false => 0,
        };
        let aggregated_status = match cursor.field(r#""aggregatedStatus":"#) {
            // The value `null` has the same meaning as an absent field.
            true if cursor.literal("null").is_ok() => None,
            true => Some(items(&mut cursor, &object)?),
            false => None,
        };
        cursor.literal("}}")?;
        if !matches!(cursor.rest(), "" | "\n") {
            return Err(NotCanonical);
        }
        Ok(Payload {
            object,
            observed_object,
            replicas,
            aggregated_status,
        })
    }
}

/// Reads a text field. The field may be absent.
fn optional<'a>(cursor: &mut Cursor<'a>, name: &'static str) -> Result<&'a str, NotCanonical> {
    match cursor.field(name) {
        true => cursor.text(),
        false => Ok(""),
    }
}
