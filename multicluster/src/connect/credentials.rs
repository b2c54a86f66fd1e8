//! Reads the TLS credentials of a kubeconfig again when their files change. Issuers renew client certificates, often
//! once per hour. Without this, an API server would refuse the process when its first certificate expires. The CA of an
//! API server changes too. Then the process would refuse the API server.

mod contents;

use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::time::Instant;
use tracing::{info, warn};

use contents::ContentsError;

use super::connector::{ApiServerConnector, connector};
use super::error::ClientError;

/// Interval at which the files are read while requests are sent. Issuers renew a certificate long before it expires.
const INTERVAL: Duration = Duration::from_secs(10);

/// The configuration of an API server, and the kubeconfig that it comes from.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The configuration when the process started.
    pub config: Config,
    source: Option<Source>,
    /// Hash of the contents of the files, made before they were loaded. A change since then is noticed at the first
    /// check.
    hash: u64,
}

/// A context of a kubeconfig file.
#[derive(Clone)]
struct Source {
    path: PathBuf,
    /// The contents of the file, if the file itself is not read again.
    contents: Option<Arc<str>>,
    context: Option<String>,
    /// The file with the CA of the API server, if the kubeconfig names one.
    authority: Option<PathBuf>,
}

impl From<Config> for ClusterConfig {
    fn from(config: Config) -> Self {
        let hash = hash(&files(&config, None));
        Self {
            config,
            source: None,
            hash,
        }
    }
}

/// Returns the file with the CA of a context, or of the current context.
fn authority(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<PathBuf> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| named.name == context)?;
    let cluster = &context.context.as_ref()?.cluster;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| named.name == *cluster)?;
    let file = cluster.cluster.as_ref()?.certificate_authority.as_ref()?;
    Some(PathBuf::from(file))
}

impl fmt::Debug for Source {
    /// Leaves out the contents, because they have credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl Source {
    fn kubeconfig(&self) -> Result<Kubeconfig, KubeconfigError> {
        match &self.contents {
            Some(contents) => contents::parse(&self.path, contents),
            None => Kubeconfig::read_from(&self.path),
        }
    }

    async fn load(&self) -> Result<Config, KubeconfigError> {
        let kubeconfig = self.kubeconfig()?;
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        Config::from_custom_kubeconfig(kubeconfig, &options).await
    }
}

impl ClusterConfig {
    /// Reads a kubeconfig file. Takes the named context, or the current context if `context` is `None`.
    pub(super) async fn read(path: &Path, context: Option<&str>) -> Result<Self, KubeconfigError> {
        Self::of(Source {
            path: path.to_owned(),
            contents: None,
            context: context.map(str::to_owned),
            authority: None,
        })
        .await
    }

    /// Decodes the contents of a kubeconfig file, and takes its current context. Relative paths in it are relative to the
    /// file. The files that it names are read again when they change, but not the kubeconfig itself.
    ///
    /// # Errors
    ///
    /// [`ContentsError`], which names the field.
    pub(crate) fn of_contents(path: &Path, contents: &Arc<str>) -> Result<Self, ContentsError> {
        let source = Source {
            path: path.to_owned(),
            contents: Some(Arc::clone(contents)),
            context: None,
            authority: None,
        };
        contents::check(&source.kubeconfig()?)?;
        Ok(Self::of(source)
            .now_or_never()
            .ok_or(ContentsError::Waits)??)
    }

    /// Reads the kubeconfig, and names its CA file in the source.
    async fn of(mut source: Source) -> Result<Self, KubeconfigError> {
        source.authority = authority(&source.kubeconfig()?, source.context.as_deref());
        // The first read only names the files. They are hashed before they are loaded.
        let named = files(&source.load().await?, Some(&source));
        let hash = hash(&named);
        Ok(Self {
            config: source.load().await?,
            source: Some(source),
            hash,
        })
    }

    fn files(&self) -> Vec<PathBuf> {
        files(&self.config, self.source.as_ref())
    }

    /// Reads the kubeconfig and its files again.
    fn reload(&self) -> Result<Self, String> {
        let Some(source) = &self.source else {
            return Ok(Self::from(self.config.clone()));
        };
        // Loading a kubeconfig is async in kube, but it waits for nothing.
        let loaded = Self::of(source.clone()).now_or_never();
        let loaded = loaded.ok_or("kube waits for something")?;
        loaded.map_err(|error| error.to_string())
    }
}

/// Returns the kubeconfig if it is read again, and the files that it names: the CA of the API server, the client certificate and its key.
fn files(config: &Config, source: Option<&Source>) -> Vec<PathBuf> {
    let auth = &config.auth_info;
    let source = source.into_iter();
    let source = source.flat_map(|it| {
        let file = it.contents.is_none().then_some(&it.path);
        [file, it.authority.as_ref()]
    });
    let named = [&auth.client_certificate, &auth.client_key];
    source
        .flatten()
        .cloned()
        .chain(named.into_iter().flatten().map(PathBuf::from))
        .collect()
}

/// The TLS credentials for new connections to an API server.
pub(super) struct Credentials {
    config: ClusterConfig,
    interval: Duration,
    current: Mutex<Current>,
}

struct Current {
    /// The files that are read again.
    files: Vec<PathBuf>,
    connector: ApiServerConnector,
    /// Number of times that the credentials were replaced.
    generation: u64,
    /// Hash of the contents of the files that `connector` was made from.
    hash: u64,
    checked: Instant,
    /// The last error. It is kept so that the same error is logged once.
    problem: Option<String>,
}

impl Credentials {
    /// Loads the credentials.
    ///
    /// # Errors
    ///
    /// As [`connector`].
    pub(super) fn new(config: ClusterConfig) -> Result<Self, ClientError> {
        Self::with_interval(config, INTERVAL)
    }

    fn with_interval(config: ClusterConfig, interval: Duration) -> Result<Self, ClientError> {
        let current = Current {
            files: config.files(),
            connector: connector(&config.config)?,
            generation: 0,
            hash: config.hash,
            checked: Instant::now(),
            problem: None,
        };
        Ok(Self {
            config,
            interval,
            current: Mutex::new(current),
        })
    }

    /// Returns the connector for new connections, and its generation. Connections of another generation must get no new
    /// requests. If the files cannot be used, the former credentials stay in use.
    pub(super) fn current(&self) -> (ApiServerConnector, u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.files.is_empty() && current.checked.elapsed() >= self.interval {
            current.checked = Instant::now();
            self.renew(&mut current);
        }
        (current.connector.clone(), current.generation)
    }

    fn renew(&self, current: &mut Current) {
        if hash(&current.files) == current.hash {
            current.problem = None;
            return;
        }
        let server = &self.config.config.cluster_url;
        let reloaded = self.config.reload().and_then(|loaded| {
            let connector = connector(&loaded.config).map_err(|error| error.to_string())?;
            Ok((connector, loaded))
        });
        match reloaded {
            Ok((connector, loaded)) => {
                info!(%server, "the TLS credentials of the kubeconfig were read again");
                current.connector = connector;
                current.generation += 1;
                current.hash = loaded.hash;
                current.files = loaded.files();
                current.problem = None;
            }
            Err(problem) if current.problem.as_ref() != Some(&problem) => {
                warn!(%server, %problem, "the TLS credentials of the kubeconfig cannot be read again; the former ones stay in use");
                current.problem = Some(problem);
            }
            Err(_) => {}
        }
    }
}

/// Returns a hash of the contents. A file that cannot be read counts as empty.
fn hash(files: &[PathBuf]) -> u64 {
    let contents = files.iter().map(|path| fs::read(path).unwrap_or_default());
    let mut hasher = DefaultHasher::new();
    contents.collect::<Vec<_>>().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
