//! Reads the metadata of companions in the cell, by name. Nothing watches them: the right to watch ConfigMaps and Secrets
//! is the right to read them all. Many Instances can wait for one companion.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use api::references::Source;
use jiff::Timestamp;
use kube::Client;

use crate::lock::lock;
use crate::referenced_data::companion_kind::{is_companion, read_metadata};
use crate::referenced_data::version::SourceVersion;
use crate::runtime::ReconcileError;

/// How long an answer counts.
const CURRENT: Duration = Duration::from_millis(500);

/// The answer about a companion, and when it was given.
struct Answer {
    at: Timestamp,
    version: Option<SourceVersion>,
}

/// The last answers, by namespace and source.
#[derive(Default)]
pub(crate) struct CellCompanions {
    answers: Mutex<HashMap<(String, Source), Answer>>,
}

impl CellCompanions {
    /// Returns the version of the source that the companion in the cell was copied from. Returns `None` if the cell does
    /// not have it. An object that is no companion does not count.
    ///
    /// # Errors
    ///
    /// The errors of [`read_metadata`].
    pub(crate) async fn look(
        &self,
        client: &Client,
        namespace: &str,
        source: &Source,
        now: Timestamp,
    ) -> Result<Option<SourceVersion>, ReconcileError> {
        let key = (namespace.to_owned(), source.clone());
        let is_current = |answer: &Answer| now.duration_since(answer.at).unsigned_abs() < CURRENT;
        if let Some(answer) = lock(&self.answers).get(&key).filter(|it| is_current(it)) {
            return Ok(answer.version.clone());
        }
        let metadata = read_metadata(client, namespace, source).await?;
        let companion = metadata.filter(is_companion);
        let version = companion.map(|it| SourceVersion::of_companion(&it).unwrap_or_default());
        let mut answers = lock(&self.answers);
        answers.retain(|_, answer| is_current(answer));
        let answer = Answer {
            at: now,
            version: version.clone(),
        };
        answers.insert(key, answer);
        Ok(version)
    }
}
