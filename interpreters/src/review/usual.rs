//! Reading a request in the form in which Karmada writes it (karmada.md 1.2): what it is about comes first, so the object
//! can be read together with its envelope.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Kind, Operation, Request};
use crate::cursor::{Cursor, OtherForm};

/// A request of which the object comes next.
pub(crate) struct Usual<'a> {
    pub(crate) kind: Kind,
    pub(crate) operation: Operation,
    uid: &'a str,
    name: &'a str,
    namespace: &'a str,
    cursor: Cursor<'a>,
}

impl<'a> Usual<'a> {
    /// Reads up to the object.
    pub(crate) fn new(body: &'a str) -> Result<Self, OtherForm> {
        let mut cursor = Cursor::new(body);
        cursor.literal(br#"{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{"uid":"#)?;
        let uid = Some(cursor.text()?).filter(|uid| !uid.is_empty());
        cursor
            .literal(br#","kind":{"group":"compute.datumapis.com","version":"v1alpha","kind":"#)?;
        let kind = cursor.text()?;
        cursor.literal(b"}")?;
        let name = optional(&mut cursor, br#""name":"#)?;
        let namespace = optional(&mut cursor, br#""namespace":"#)?;
        cursor.literal(br#","operation":"#)?;
        let operation = cursor.text()?;
        cursor.literal(br#","object":"#)?;
        Ok(Self {
            kind: Kind::named(kind).ok_or(OtherForm)?,
            operation: Operation::named(operation).ok_or(OtherForm)?,
            uid: uid.ok_or(OtherForm)?,
            name,
            namespace,
            cursor,
        })
    }

    /// Reads the object, by `object`, and what comes after it; what the cells report by `items`.
    pub(crate) fn read<O, I, P: Deserialize<'a>>(
        self,
        object: impl FnOnce(&mut Cursor<'a>) -> Result<O, OtherForm>,
        items: impl FnOnce(&mut Cursor<'a>, &O) -> Result<I, OtherForm>,
    ) -> Result<Request<'a, O, I, P>, OtherForm> {
        let mut cursor = self.cursor;
        let object = object(&mut cursor)?;
        let observed_object = match cursor.field(br#""observedObject":"#) {
            true => cursor.value::<Option<P>>()?,
            false => None,
        };
        let replicas = match cursor.field(br#""replicas":"#) {
            true => i32::try_from(cursor.integer()?).map_err(|_| OtherForm)?,
            false => 0,
        };
        let aggregated_status = match cursor.field(br#""aggregatedStatus":"#) {
            // It is as good as absent.
            true if cursor.literal(b"null").is_ok() => None,
            true => Some(items(&mut cursor, &object)?),
            false => None,
        };
        cursor.literal(b"}}")?;
        if !matches!(cursor.rest(), "" | "\n") {
            return Err(OtherForm);
        }
        Ok(Request {
            uid: Cow::Borrowed(self.uid),
            kind: self.kind.into(),
            name: Cow::Borrowed(self.name),
            namespace: Cow::Borrowed(self.namespace),
            operation: Cow::Borrowed(self.operation.as_str()),
            object: Some(object),
            observed_object,
            replicas,
            aggregated_status,
        })
    }
}

/// A text that may be absent.
fn optional<'a, const N: usize>(
    cursor: &mut Cursor<'a>,
    name: &[u8; N],
) -> Result<&'a str, OtherForm> {
    match cursor.field(name) {
        true => cursor.text(),
        false => Ok(""),
    }
}

/// What cells report, for operations that are not about it.
pub(crate) fn unread<'a, O>(cursor: &mut Cursor<'a>, _: &O) -> Result<&'a RawValue, OtherForm> {
    cursor.value()
}
