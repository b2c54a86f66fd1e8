//! Quantities by resource name, and the sum of the limits of all containers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use api::Quantity;
use api::quantity::Amount;
use api::text::Text;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::InterpretError;

/// Maximum number of resources of one container, and of one Instance. Nodes have about ten resources.
const RESOURCES_MAX: usize = 64;
/// The resources that are required in a complete size.
const SIZE: [&str; 2] = ["cpu", "memory"];

/// Quantities by resource name.
#[derive(Default)]
pub(crate) struct Quantities<'a> {
    /// Each name is unique.
    list: Vec<(Cow<'a, str>, Quantity)>,
    /// Whether there are more than [`RESOURCES_MAX`] names. `list` is then incomplete.
    are_too_many: bool,
}

/// The error of one quantity, or of all quantities of one object. The field is relative to the quantities.
type QuantityError = InterpretError;

impl<'a> Quantities<'a> {
    fn insert(&mut self, name: Cow<'a, str>, quantity: Quantity) {
        let is_full = self.list.len() == RESOURCES_MAX;
        match self.list.iter_mut().find(|(other, _)| *other == name) {
            Some((_, former)) => *former = quantity,
            None if is_full => self.are_too_many = true,
            None => self.list.push((name, quantity)),
        }
    }

    /// Returns whether the quantities are a complete size.
    pub(crate) fn is_size(&self) -> bool {
        let has = |resource: &&str| self.list.iter().any(|(name, _)| name == resource);
        self.are_too_many || SIZE.iter().all(has)
    }

    /// Passes the name and the amount of each resource to `each`. `field` is the path of the quantities, for error
    /// messages.
    pub(crate) fn for_each_amount(
        self,
        field: fmt::Arguments<'_>,
        mut each: impl FnMut(Cow<'a, str>, Amount) -> Result<(), QuantityError>,
    ) -> Result<(), QuantityError> {
        if self.are_too_many {
            return Err(too_many(field));
        }
        self.list
            .into_iter()
            .try_for_each(|(resource, quantity)| match quantity.amount() {
                Ok(amount) => each(resource, amount),
                Err(error) => Err(InterpretError::new(
                    format_args!("{field}[{resource}]"),
                    error,
                )),
            })
    }
}

fn too_many(field: impl fmt::Display) -> QuantityError {
    InterpretError::new(
        field,
        format_args!("has more than {RESOURCES_MAX} resources"),
    )
}

impl<'de: 'a, 'a> Deserialize<'de> for Quantities<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(QuantitiesVisitor(Self::default()))
    }
}

struct QuantitiesVisitor<'a>(Quantities<'a>);

impl<'de: 'a, 'a> Visitor<'de> for QuantitiesVisitor<'a> {
    type Value = Quantities<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Self::Value, M::Error> {
        let Self(mut quantities) = self;
        while let Some((Text(name), quantity)) = fields.next_entry()? {
            quantities.insert(name, quantity);
        }
        Ok(quantities)
    }
}

/// The sum of the limits of all containers.
#[derive(Default)]
pub(crate) struct ContainerLimits<'a> {
    /// The number of containers.
    containers: usize,
    /// Whether a container has no complete size. There is no sum then.
    is_incomplete: bool,
    sums: BTreeMap<Cow<'a, str>, Amount>,
    /// The first error.
    error: Option<QuantityError>,
}

impl<'a> ContainerLimits<'a> {
    /// Adds the limits of the next container.
    pub(crate) fn add(&mut self, limits: Quantities<'a>) {
        let index = self.containers;
        self.containers += 1;
        self.is_incomplete |= !limits.is_size();
        if self.is_incomplete || self.error.is_some() {
            return;
        }
        let field = format_args!("sandbox.containers[{index}].resources.limits");
        let sums = &mut self.sums;
        let added = limits.for_each_amount(field, |resource, amount| {
            let is_full = sums.len() == RESOURCES_MAX;
            match sums.get_mut(&resource) {
                Some(sum) => *sum = sum.saturating_add(amount),
                None if is_full => return Err(too_many(field)),
                None => drop(sums.insert(resource, amount)),
            }
            Ok(())
        });
        self.error = added.err();
    }

    /// Returns the sums. Returns `None` if there are no containers, or if a container has no complete size. `runtime`
    /// is the path of `spec.runtime`, for error messages.
    pub(crate) fn sums(
        self,
        runtime: &str,
    ) -> Result<Option<BTreeMap<Cow<'a, str>, Amount>>, InterpretError> {
        if self.containers == 0 || self.is_incomplete {
            return Ok(None);
        }
        match self.error {
            Some(InterpretError { field, problem }) => Err(InterpretError::new(
                format_args!("{runtime}.{field}"),
                problem,
            )),
            None => Ok(Some(self.sums)),
        }
    }
}
