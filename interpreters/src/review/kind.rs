//! The kinds that this crate interprets.

/// A kind that this crate interprets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterpretedKind {
    /// `compute.datumapis.com/v1alpha` WorkloadDeployment.
    WorkloadDeployment,
    /// `compute.datumapis.com/v1alpha` Instance.
    Instance,
}

impl InterpretedKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::WorkloadDeployment, Self::Instance];

    /// Returns the name of the kind in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkloadDeployment => "WorkloadDeployment",
            Self::Instance => "Instance",
        }
    }

    /// Returns the kind that a customization targets. `None` if this crate does not interpret it.
    pub fn of_target(api_version: &str, kind: &str) -> Option<Self> {
        (api_version == api::API_VERSION)
            .then(|| Self::from_name(kind))
            .flatten()
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}
