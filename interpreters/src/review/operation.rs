//! The operations of the interpreter protocol.

/// An operation that Karmada requests. See docs/concepts/interpreter.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Returns the number of replicas of the object, and the requirements of one replica.
    InterpretReplica,
    /// Returns the components of the object.
    InterpretComponent,
    /// Sets the number of replicas.
    ReviseReplica,
    /// Copies the fields that the cell owns into the desired object.
    Retain,
    /// Sets the status of the object to the joined status of all cells.
    AggregateStatus,
    /// Returns the objects that must be in every cell with the interpreted object.
    InterpretDependency,
    /// Returns the status that the cell reports to the hub.
    InterpretStatus,
    /// Returns whether the object is healthy.
    InterpretHealth,
}

impl Operation {
    /// All operations, in the order of Karmada's API.
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

    /// Returns the name of the operation in the protocol.
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

    /// Returns whether the answer is a patch of the object.
    pub fn changes_object(self) -> bool {
        matches!(
            self,
            Self::ReviseReplica | Self::Retain | Self::AggregateStatus
        )
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.as_str() == name)
    }
}
