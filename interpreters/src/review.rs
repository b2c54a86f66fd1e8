//! The wire protocol: `ResourceInterpreterContext`, `config.karmada.io/v1alpha1` (karmada.md 1).

mod answer;
mod usual;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::error::InterpretError;
use crate::patch::Patch;
pub use answer::Interpretation;
pub(crate) use answer::encode;
pub(crate) use usual::{Usual, unread};

const API_VERSION: &str = "config.karmada.io/v1alpha1";
const KIND: &str = "ResourceInterpreterContext";

/// A body that cannot be answered in its own protocol.
#[derive(Debug, Error)]
pub enum MalformedReview {
    /// The body does not decode.
    #[error("the body is not a ResourceInterpreterContext: {0}")]
    NotAReview(#[source] serde_json::Error),
    /// A field that every answer needs is missing, or has another value than this protocol gives it.
    #[error("{0}")]
    Invalid(InterpretError),
}

/// What Karmada asks (karmada.md 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// How many replicas does the object want, and what does each need?
    InterpretReplica,
    /// Of which components does the object consist?
    InterpretComponent,
    /// The object with another number of replicas.
    ReviseReplica,
    /// The desired object with what the cell owns.
    Retain,
    /// The object with the joined status of all cells.
    AggregateStatus,
    /// Which other objects must be where the object is?
    InterpretDependency,
    /// The part of the status that is reported to the hub.
    InterpretStatus,
    /// Is the object healthy?
    InterpretHealth,
}

impl Operation {
    /// All operations, in the order of the protocol's description.
    pub const ALL: [Self; 8] = [
        Self::InterpretReplica,
        Self::InterpretComponent,
        Self::ReviseReplica,
        Self::Retain,
        Self::AggregateStatus,
        Self::InterpretDependency,
        Self::InterpretStatus,
        Self::InterpretHealth,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InterpretReplica => "InterpretReplica",
            Self::InterpretComponent => "InterpretComponent",
            Self::ReviseReplica => "ReviseReplica",
            Self::Retain => "Retain",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretDependency => "InterpretDependency",
            Self::InterpretStatus => "InterpretStatus",
            Self::InterpretHealth => "InterpretHealth",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }
}

/// A kind that can be interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `compute.datumapis.com/v1alpha` WorkloadDeployment.
    WorkloadDeployment,
    /// `compute.datumapis.com/v1alpha` Instance.
    Instance,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::WorkloadDeployment, Self::Instance];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkloadDeployment => "WorkloadDeployment",
            Self::Instance => "Instance",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

/// One question about one object, as it was received: the object as `O`, what the cells report as `I`, the object of the
/// cell as `P`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request<'a, O = &'a RawValue, I = &'a RawValue, P = &'a RawValue> {
    /// Identifies the call; the answer repeats it.
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: GroupVersionKind<'a>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    pub(crate) object: Option<O>,
    pub(crate) observed_object: Option<P>,
    #[serde(default)]
    replicas: i32,
    /// What each cell reported, for `AggregateStatus`. Absent means none.
    pub(crate) aggregated_status: Option<I>,
}

#[derive(Default, Deserialize)]
struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    group: Cow<'a, str>,
    #[serde(borrow, default)]
    version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

impl From<Kind> for GroupVersionKind<'_> {
    fn from(kind: Kind) -> Self {
        Self {
            group: api::GROUP.into(),
            version: api::VERSION.into(),
            kind: kind.as_str().into(),
        }
    }
}

impl<O, I, P> Request<'_, O, I, P> {
    pub(crate) fn operation(&self) -> Result<Operation, InterpretError> {
        Operation::named(&self.operation).ok_or_else(|| {
            let known = Operation::ALL.map(Operation::as_str).join(", ");
            let problem = format!("unknown operation {:?}; known are {known}", self.operation);
            InterpretError::new("request.operation", problem)
        })
    }

    pub(crate) fn kind(&self) -> Result<Kind, InterpretError> {
        let GroupVersionKind {
            group,
            version,
            kind,
        } = &self.kind;
        let known = (group == api::GROUP && version == api::VERSION).then(|| Kind::named(kind));
        known.flatten().ok_or_else(|| {
            let names = Kind::ALL.map(Kind::as_str).join(" and ");
            let problem = format!(
                "{group}/{version} {kind} is not interpreted here; {names} of {} are",
                api::API_VERSION
            );
            InterpretError::new("request.kind", problem)
        })
    }

    /// The share of one cell, for `ReviseReplica`.
    pub(crate) fn replicas(&self) -> i32 {
        self.replicas
    }
}

impl<'a, O> Request<'a, O> {
    /// The object of the cell, for Retain.
    pub(crate) fn observed_object(&self) -> Result<&'a str, InterpretError> {
        self.observed_object
            .map(RawValue::get)
            .ok_or_else(|| InterpretError::missing("request.observedObject"))
    }
}

impl<'a> Request<'a> {
    /// The desired object, the template or the object of the cell, depending on the operation.
    pub(crate) fn object(&self) -> Result<&'a str, InterpretError> {
        self.object
            .map(RawValue::get)
            .ok_or_else(|| InterpretError::missing("request.object"))
    }

    /// What each cell reported, as a JSON list.
    pub(crate) fn aggregated_status(&self) -> &'a str {
        self.aggregated_status.map_or("[]", RawValue::get)
    }
}

/// Reads the envelope; an object is only delimited.
pub(crate) fn decode(body: &str) -> Result<Request<'_>, MalformedReview> {
    let Context {
        api_version,
        kind,
        request,
    }: Context<'_> = serde_json::from_str(body).map_err(MalformedReview::NotAReview)?;
    let expect = |field: &str, value: &str, expected: &str| {
        if value.is_empty() || value == expected {
            Ok(())
        } else {
            let problem = format!("is {value:?}, must be {expected:?}");
            Err(MalformedReview::Invalid(InterpretError::new(
                field, problem,
            )))
        }
    };
    expect("apiVersion", &api_version, API_VERSION)?;
    expect("kind", &kind, KIND)?;
    let missing = |field: &str| MalformedReview::Invalid(InterpretError::missing(field));
    let request = request.ok_or_else(|| missing("request"))?;
    if request.uid.is_empty() {
        return Err(missing("request.uid"));
    }
    Ok(request)
}

/// The body as text. All of it is checked at once: parts that no one reads must be right, too.
pub(crate) fn text(body: &[u8]) -> Result<&str, MalformedReview> {
    std::str::from_utf8(body)
        .map_err(serde_json::Error::custom)
        .map_err(MalformedReview::NotAReview)
}

/// What an operation found out.
#[derive(Debug)]
pub(crate) enum Outcome {
    Replicas {
        replicas: i32,
        requirements: Option<Requirements>,
    },
    Components(Vec<Component>),
    Patch(Patch),
    Dependencies(Vec<Dependency>),
    Status(Box<RawValue>),
    Health(bool),
}

/// What one replica needs (`ReplicaRequirements`, karmada.md 1.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Requirements {
    pub(crate) resource_request: BTreeMap<String, String>,
}

/// A group of equal replicas.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Component {
    pub(crate) name: &'static str,
    pub(crate) replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replica_requirements: Option<Requirements>,
}

/// An object that must be where the interpreted object is (`DependentObjectReference`). The order is that of the answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dependency {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
}
