//! Wire types of every API that compute-federation uses.
//!
//! This crate contains the compute API (`compute.datumapis.com/v1alpha`), the generation of its CRDs, and the used
//! parts of the APIs of Karmada, Milo and Datum's networking. It also contains the labels, annotations, finalizers,
//! conditions, reasons, identity types and RBAC rights. No other crate defines any of them.
//!
//! Types of other projects have only the used fields. Unknown fields are tolerated. This crate does no I/O and makes no
//! decisions. The rules are in `interpreters`, `webhooks` and `controllers`.

pub mod allowed;
pub mod annotations;
pub mod assigned_replicas;
pub mod cell_rules;
pub mod cells_below;
pub mod condition;
pub mod conditions;
pub mod core_v1;
pub mod crds;
pub mod decode;
pub mod embedded_metadata;
pub mod finalizers;
pub mod gateway;
pub mod identity;
pub mod instance;
pub mod instance_template;
pub mod instance_type;
pub mod karmada;
pub mod label_selector;
pub mod labels;
pub mod lower_hub;
pub mod metadata_key;
pub mod milo;
pub mod network_interface;
pub mod networking;
pub mod quantity;
pub mod quota;
pub mod reasons;
pub mod references;
pub mod rights;
pub mod runtime;
pub mod text;
pub mod unknown_fields;
pub mod volume;
pub mod workload;
pub mod workload_deployment;
pub mod workload_summary;

pub use assigned_replicas::{AssignedReplicas, ReplicasField};
pub use cell_rules::{CellRule, CellRules};
pub use condition::{Condition, ConditionStatus};
pub use embedded_metadata::EmbeddedMetadata;
pub use identity::{CellName, CityCode, HubNamespace, ProjectName};
pub use instance::{Instance, InstanceSpec, InstanceStatus};
pub use instance_template::InstanceTemplateSpec;
pub use lower_hub::{LowerHub, LowerHubStatus};
pub use quantity::Quantity;
pub use unknown_fields::UnknownFields;
pub use workload::{Workload, WorkloadSpec, WorkloadStatus};
pub use workload_deployment::{
    WorkloadDeployment, WorkloadDeploymentSpec, WorkloadDeploymentStatus,
};
pub use workload_summary::{WorkloadSummary, WorkloadSummarySpec, WorkloadSummaryStatus};

/// API group of Workload, WorkloadDeployment and Instance.
pub const GROUP: &str = "compute.datumapis.com";
/// The only served and stored version of [`GROUP`].
pub const VERSION: &str = "v1alpha";
/// `apiVersion` of the compute kinds.
pub const API_VERSION: &str = "compute.datumapis.com/v1alpha";
/// The namespace that every API server has. Its UID identifies the API server.
pub const DEFAULT_NAMESPACE: &str = "default";
