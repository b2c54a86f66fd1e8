//! The record of the projects in which Instances of the cell may have left claims: an annotation on the Namespace
//! `default` of the cell, which always exists.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{self, Arc};
use std::time::Duration;

use api::annotations::LEFT_CLAIMS;
use api::{DEFAULT_NAMESPACE, ProjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMetaExt;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

use crate::cell::CellCaches;
use crate::lock::lock;
use crate::objects::Namespace;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// Writes the record.
pub(crate) struct LeftClaims {
    cell: Arc<CellCaches>,
    /// Since when nothing was found in each project of the record, and for how long nothing must be found. The lock is
    /// held while the record is written: many Instances can end at once.
    clean: Mutex<HashMap<ProjectName, (Duration, Instant)>>,
    /// The projects that the cell has refused to record, and those that the cache, which may be behind, has in the record
    /// already. They are forgotten with this process.
    unrecorded: sync::Mutex<HashSet<ProjectName>>,
    /// Called with each project in which an Instance leaves a claim. No watch reports one that is in the record already,
    /// or that the cell refuses to record.
    on_left: Box<dyn Fn(&ProjectName) + Send + Sync>,
}

impl LeftClaims {
    /// Makes the record. `on_left` is called with each project in which an Instance leaves a claim.
    pub(crate) fn new(
        cell: Arc<CellCaches>,
        on_left: impl Fn(&ProjectName) + Send + Sync + 'static,
    ) -> Self {
        Self {
            cell,
            clean: Mutex::default(),
            unrecorded: sync::Mutex::default(),
            on_left: Box::new(on_left),
        }
    }

    /// Returns whether a project is in the record, or this process remembers it because the cell has refused to record
    /// it, or because the record had it already when an Instance left a claim.
    pub(super) fn has(&self, project: &ProjectName) -> bool {
        let is_recorded = |namespace| recorded(&namespace).contains(project);
        lock(&self.unrecorded).contains(project) || self.namespace().is_some_and(is_recorded)
    }

    /// Adds a project to the record.
    ///
    /// # Errors
    ///
    /// [`ReconcileError`] if the write can succeed later. A refused write must hold no Instance up: this process
    /// remembers the project.
    pub(in crate::quota) async fn add(
        &self,
        context: &ReconcileContext,
        writer: &Writer,
        project: &ProjectName,
    ) -> Result<(), ReconcileError> {
        let mut clean = self.clean.lock().await;
        clean.remove(project);
        let mut is_new = false;
        let added = self.write(context, writer, |projects| {
            is_new = projects.insert(project.clone());
            is_new
        });
        let added = added.await;
        if !is_new {
            lock(&self.unrecorded).insert(project.clone());
        }
        match added {
            Err(error) if error.lasting_refusal().is_some() => {
                lock(&self.unrecorded).insert(project.clone());
                warn!(%project, %error, "claims that Instances leave in the project are forgotten with this process");
            }
            added => added?,
        }
        (self.on_left)(project);
        Ok(())
    }

    /// Notes that nothing was found in a project. If nothing was found for this time, and no Instance has left a claim
    /// meanwhile, the project is removed from the record. Returns whether it was.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`], also if the Namespace has changed since it was read.
    pub(super) async fn note_clean(
        &self,
        context: &ReconcileContext,
        writer: &Writer,
        project: &ProjectName,
        time: Duration,
    ) -> Result<bool, ReconcileError> {
        // An Instance that leaves a claim waits for this lock.
        let mut clean = self.clean.lock().await;
        let begun = (time, Instant::now());
        let entry = clean.entry(project.clone()).or_insert(begun);
        // An answer of another kind is no proof of the former one.
        if entry.0 != time {
            *entry = begun;
        }
        if entry.1.elapsed() < time {
            return Ok(false);
        }
        self.write(context, writer, |projects| projects.remove(project))
            .await?;
        lock(&self.unrecorded).remove(project);
        clean.remove(project);
        Ok(true)
    }

    /// Notes that something was found in a project.
    pub(super) async fn note_unclean(&self, project: &ProjectName) {
        self.clean.lock().await.remove(project);
    }

    fn namespace(&self) -> Option<ObjectMeta> {
        self.cell.namespaces.metadata_of("", DEFAULT_NAMESPACE)
    }

    /// Writes the record after this change, which returns whether it has changed anything. The API server refuses the
    /// write if the cache is behind.
    async fn write(
        &self,
        context: &ReconcileContext,
        writer: &Writer,
        change: impl FnOnce(&mut BTreeSet<ProjectName>) -> bool,
    ) -> Result<(), ReconcileError> {
        let namespace = self.namespace().unwrap_or_else(|| ObjectMeta {
            name: Some(DEFAULT_NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        });
        let mut projects = recorded(&namespace);
        if !change(&mut projects) {
            return Ok(());
        }
        let namespaces = Collection::of_plane(&self.cell.client, Some(&self.cell.namespaces));
        let namespace: Namespace = namespace.into_response_partial();
        writer
            .patch_metadata(context, &namespaces, &namespace, metadata(&projects))
            .await
            .map(drop)
    }
}

/// Returns the projects in the record of the Namespace with this metadata.
pub(super) fn recorded(namespace: &ObjectMeta) -> BTreeSet<ProjectName> {
    let annotations = namespace.annotations.as_ref();
    let record = annotations.and_then(|it| it.get(LEFT_CLAIMS));
    let names = record.and_then(|record| serde_json::from_str::<Vec<String>>(record).ok());
    let names = names.unwrap_or_default().into_iter();
    names
        .filter_map(|name| ProjectName::new(name).ok())
        .collect()
}

/// Returns the metadata to write for a record of these projects.
fn metadata(projects: &BTreeSet<ProjectName>) -> Value {
    let names: Vec<_> = projects.iter().map(ProjectName::as_str).collect();
    let record = (!names.is_empty()).then(|| json!(names).to_string());
    json!({"annotations": {LEFT_CLAIMS: record}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::object;

    #[test]
    fn a_record_is_a_list_of_projects() {
        for (record, expected) in [
            (json!("no list"), &[][..]),
            (json!("null"), &[]),
            (json!(r#"["p","","Q","a"]"#), &["a", "p"]),
        ] {
            let namespace: ObjectMeta = object(json!({
                "name": "default", "annotations": {LEFT_CLAIMS: record},
            }));
            let projects = recorded(&namespace);
            let names: Vec<_> = projects.iter().map(ProjectName::as_str).collect();
            assert_eq!(names, expected, "{record}");
        }
        let written = |projects: &[&str]| {
            let projects = projects.iter().map(|it| ProjectName::new(*it).unwrap());
            metadata(&projects.collect())["annotations"][LEFT_CLAIMS].clone()
        };
        assert_eq!(written(&["p", "a"]), json!(r#"["a","p"]"#));
        assert_eq!(written(&[]), Value::Null);
    }
}
