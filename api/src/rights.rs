//! The Kubernetes RBAC rights of compute-federation: one typed table.
//!
//! The roles of `deploy/components/controller_rbac`, `deploy/components/leader_election` and
//! `deploy/base/downstream-rbac` are generated from [`ROLES`] ([`files`]). `docs/reference/rights.md` is generated from
//! the same table. [`DENIED`] contains examples of what no role may allow.

mod denied;
mod manifests;
mod role;
mod table;

pub use denied::{DENIED, Denied, Identity};
pub use manifests::{RightsFile, files};
pub use role::{
    CELLS_GROUP, FOLDERS, MANAGER_USER, NAMESPACE, Plane, Role, Rule, SERVICE_ACCOUNT, Subject,
    Target, Verb,
};
pub use table::ROLES;
