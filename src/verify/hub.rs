//! Reads the hub: customizations, registrations of webhooks, the objects of a kind and their ResourceBindings. Nothing
//! is written.

use anyhow::{Context, anyhow, bail};
use api::karmada::{ResourceBinding, ResourceInterpreterCustomization};
use controllers::ca_bundle::Registration;
use interpreters::comparison::Subject;
use interpreters::{InterpretedKind, Operation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{Api, ListParams};
use kube::core::Request;
use kube::{Client, Error, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::join::{Join, Joined, List, ObjectText};
use crate::args::VerifyArgs;
use crate::hub_client;
use crate::hub_error::hub_error;

/// Objects in one page of a list (client-go's default).
const PAGE: u32 = 500;
/// Pages of a list that are read before they are needed.
const AHEAD: usize = 2;

/// The hub.
#[derive(Clone)]
pub(super) struct Hub {
    client: Client,
    /// Address of its API server.
    pub(super) url: String,
}

/// A registered interpreter webhook that can answer requests about our kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegisteredWebhook {
    /// `<configuration>/<webhook>`, by which Karmada orders webhooks.
    pub(super) name: String,
    pub(super) answers: Vec<(InterpretedKind, Operation)>,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Configuration {
    metadata: ConfigurationName,
    #[serde(default)]
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
struct ConfigurationName {
    name: String,
}

#[derive(Deserialize)]
struct Webhook {
    name: String,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    operations: Vec<String>,
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    kinds: Vec<String>,
}

impl Hub {
    pub(super) async fn connect(args: &VerifyArgs) -> anyhow::Result<Self> {
        let (kubeconfig, context) = (&args.federation_kubeconfig, &args.federation_context);
        let (client, url) = hub_client::connect(kubeconfig, context.as_deref(), "verify").await?;
        Ok(Self { client, url })
    }

    fn error(&self, error: &Error) -> anyhow::Error {
        hub_error(&self.url, error)
    }

    /// Returns the customizations of the hub.
    pub(super) async fn customizations(
        &self,
    ) -> anyhow::Result<Vec<ResourceInterpreterCustomization>> {
        let all = Api::<ResourceInterpreterCustomization>::all(self.client.clone());
        let listed = all.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| self.error(&error));
        Ok(listed.context("ResourceInterpreterCustomizations")?.items)
    }

    /// Returns the registered webhooks for our kinds, in the order in which Karmada tries them.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or if `registration` is not the default and does not exist.
    pub(super) async fn webhooks(
        &self,
        registration: &str,
    ) -> anyhow::Result<Vec<RegisteredWebhook>> {
        let path = "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations";
        let page: Page<Configuration> = self.page(path, None).await?;
        let names: Vec<_> = page
            .items
            .iter()
            .map(|configuration| configuration.metadata.name.as_str())
            .collect();
        if registration != Registration::INTERPRETER.name() && !names.contains(&registration) {
            bail!(
                "--registration: the hub has no ResourceInterpreterWebhookConfiguration {registration}; it has: {}",
                names.join(", ")
            );
        }
        Ok(registered(page.items))
    }

    /// Calls `next` with the objects of a kind, as they are read.
    ///
    /// # Errors
    ///
    /// If a list fails, or `next` fails.
    pub(super) async fn objects(
        &self,
        kind: InterpretedKind,
        mut next: impl FnMut(Joined) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let plural = format!("{}s", kind.as_str().to_lowercase());
        let objects = format!("/apis/{}/{}/{plural}", api::GROUP, api::VERSION);
        let bindings = ResourceBinding::url_path(&(), None);
        let mut objects = self.pages::<ObjectText>(objects);
        let mut bindings = self.pages::<ResourceBinding>(bindings);
        let mut join = Join::new(kind.as_str());
        while let Some(list) = join.next() {
            match list {
                List::Objects => {
                    let (items, is_last) = objects.next().await?;
                    join.add_objects(items, is_last);
                }
                List::Bindings => {
                    let (items, is_last) = bindings.next().await?;
                    join.add_bindings(items, is_last);
                }
            }
            for joined in join.take() {
                next(joined)?;
            }
        }
        Ok(())
    }

    /// Reads a list in the background, page by page.
    fn pages<T: DeserializeOwned + Send + 'static>(&self, path: String) -> Pages<T> {
        let hub = self.clone();
        let (sender, receiver) = mpsc::channel(AHEAD);
        let task = tokio::spawn(async move {
            let mut token = None;
            loop {
                let page = hub.page(&path, token.take()).await;
                let page = page.map(|page: Page<T>| {
                    token = continue_token(page.metadata);
                    (page.items, token.is_none())
                });
                let is_over = !matches!(page, Ok((_, false)));
                // Without a receiver, nobody needs the rest.
                if sender.send(page).await.is_err() || is_over {
                    break;
                }
            }
        });
        Pages {
            receiver,
            _task: AbortOnDropHandle::new(task),
        }
    }

    async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        token: Option<String>,
    ) -> anyhow::Result<Page<T>> {
        let is_continued = token.is_some();
        let params = ListParams {
            limit: Some(PAGE),
            continue_token: token,
            ..ListParams::default()
        };
        let request = Request::new(path).list(&params)?;
        self.client.request(request).await.map_err(|error| match error {
            Error::Api(status) if status.code == 410 && is_continued => anyhow!(
                "{path}: the API server has discarded the state of the hub in which the list began, \
                 because reading took too long: run the command again"
            ),
            error => self.error(&error).context(path.to_owned()),
        })
    }
}

/// A list that is read in the background.
struct Pages<T> {
    receiver: mpsc::Receiver<anyhow::Result<(Vec<T>, bool)>>,
    _task: AbortOnDropHandle<()>,
}

impl<T> Pages<T> {
    /// Returns the elements of the next page, and whether it is the last one.
    async fn next(&mut self) -> anyhow::Result<(Vec<T>, bool)> {
        let page = self.receiver.recv().await;
        page.context("the list has ended")?
    }
}

/// Returns the token of the next page.
fn continue_token(metadata: ListMeta) -> Option<String> {
    metadata.continue_.filter(|token| !token.is_empty())
}

/// Returns an element of a list as an object: API servers leave the kind out.
fn named(mut item: Value, kind: InterpretedKind) -> Value {
    if let Some(fields) = item.as_object_mut() {
        fields.insert("apiVersion".to_owned(), api::API_VERSION.into());
        fields.insert("kind".to_owned(), kind.as_str().into());
        let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
        // Large, and about the writers on the hub.
        metadata.and_then(|metadata| metadata.remove("managedFields"));
    }
    item
}

/// Decodes an object, and returns what Karmada knows about it.
///
/// # Errors
///
/// If the object or the statuses of its binding cannot be decoded.
pub(super) fn subject(kind: InterpretedKind, joined: &Joined) -> anyhow::Result<Subject> {
    let (text, binding) = joined;
    let what = || format!("{} {text}", kind.as_str());
    let object = serde_json::from_str(text.json.get()).with_context(what)?;
    let object = named(object, kind);
    let Some(binding) = binding else {
        return Ok(Subject::of_hub(object, Vec::new(), None));
    };
    // While Karmada does not know the replicas of a kind, the bindings have none.
    let shares = binding.spec.clusters.iter();
    let share = shares
        .filter_map(|cell| cell.replicas)
        .find(|share| *share > 0);
    let status = binding.status.as_ref();
    let items = status.and_then(|status| status.aggregated_status.as_ref());
    let items = match items {
        Some(items) => serde_json::from_str::<Option<Vec<Value>>>(items.get())
            .context("status.aggregatedStatus of the ResourceBinding")
            .with_context(what)?,
        None => None,
    };
    Ok(Subject::of_hub(object, items.unwrap_or_default(), share))
}

/// Returns the webhooks that answer requests about our kinds, sorted as Karmada sorts them.
fn registered(configurations: Vec<Configuration>) -> Vec<RegisteredWebhook> {
    let has = |list: &[String], wanted: &str| list.iter().any(|it| it == "*" || it == wanted);
    let mut all = Vec::new();
    for configuration in configurations {
        for webhook in configuration.webhooks {
            let matches = |kind: InterpretedKind, operation: Operation| {
                webhook.rules.iter().any(|rule| {
                    has(&rule.api_groups, api::GROUP)
                        && has(&rule.api_versions, api::VERSION)
                        && has(&rule.kinds, kind.as_str())
                        && has(&rule.operations, operation.as_str())
                })
            };
            let pairs = InterpretedKind::ALL
                .into_iter()
                .flat_map(|kind| Operation::ALL.map(|operation| (kind, operation)));
            let answers: Vec<_> = pairs
                .filter(|(kind, operation)| matches(*kind, *operation))
                .collect();
            if !answers.is_empty() {
                let name = format!("{}/{}", configuration.metadata.name, webhook.name);
                all.push(RegisteredWebhook { name, answers });
            }
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhooks_for_our_kinds_are_sorted_by_name() {
        let rule = |operations: &[&str], kinds: &[&str]| json!({"apiGroups": [api::GROUP], "apiVersions": ["*"], "kinds": kinds, "operations": operations});
        let configurations: Vec<Configuration> = serde_json::from_value(json!([
            {"metadata": {"name": "b"}, "webhooks": [{"name": "w", "rules": [rule(&["*"], &["Instance"])]}]},
            {"metadata": {"name": "a"}, "webhooks": [
                {"name": "w", "rules": [rule(&["Retain"], &["WorkloadDeployment"]), rule(&["Retain"], &["Pod"])]},
                {"name": "other", "rules": [rule(&["Retain"], &["Pod"])]},
                {"name": "empty"},
            ]},
        ]))
        .unwrap();
        let webhooks = registered(configurations);
        let names: Vec<_> = webhooks
            .iter()
            .map(|webhook| webhook.name.as_str())
            .collect();
        assert_eq!(names, ["a/w", "b/w"]);
        let expected = [(InterpretedKind::WorkloadDeployment, Operation::Retain)];
        assert_eq!(webhooks[0].answers, expected);
        assert_eq!(webhooks[1].answers.len(), Operation::ALL.len());
    }

    #[test]
    fn an_object_has_what_its_binding_knows() {
        let object = json!({"metadata": {"name": "a", "managedFields": [1]}});
        let object = named(object, InterpretedKind::Instance);
        let expected =
            json!({"apiVersion": api::API_VERSION, "kind": "Instance", "metadata": {"name": "a"}});
        assert_eq!(object, expected);
        let items = json!([{"clusterName": "dfw1"}]);
        let binding: ResourceBinding = serde_json::from_str(
            &json!({
                "metadata": {"name": "a-instance"},
                "spec": {"clusters": [{"name": "dfw1", "replicas": 3}]},
                "status": {"aggregatedStatus": items},
            })
            .to_string(),
        )
        .unwrap();
        let read = |object: &Value, binding| {
            let text = serde_json::from_value(object.clone()).unwrap();
            subject(InterpretedKind::Instance, &(text, binding)).unwrap()
        };
        let known = read(&object, Some(binding));
        assert_eq!((known.share, json!(known.items)), (3, items));
        let mut of_customer = object.clone();
        of_customer["spec"] = json!({"scaleSettings": {"minReplicas": 4}});
        assert_eq!(read(&of_customer, None).share, 4);
        let unknown = read(&object, None);
        assert_eq!((unknown.share, unknown.items.len()), (0, 0));
    }

    /// Returns a hub that lists `count` Instances and as many bindings, in pages of two. After the first page of
    /// `expired`, it has discarded the state in which the list began.
    fn hub(count: usize, expired: &'static str) -> Hub {
        let answer = move |request: http::Request<kube::client::Body>| async move {
            let uri = request.uri().clone();
            let begin: usize = uri
                .query()
                .and_then(|query| {
                    query
                        .split('&')
                        .find_map(|part| part.strip_prefix("continue="))
                })
                .map_or(0, |token| token.parse().unwrap());
            let (code, body) = if begin > 0 && uri.path().ends_with(expired) {
                (
                    410,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}),
                )
            } else {
                let end = count.min(begin + 2);
                let items: Vec<_> = (begin..end)
                    .map(|number| item(uri.path(), number))
                    .collect();
                let token = if end < count {
                    end.to_string()
                } else {
                    String::new()
                };
                (
                    200,
                    json!({"metadata": {"continue": token}, "items": items}),
                )
            };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(
                http::Response::builder().status(code).body(body).unwrap(),
            )
        };
        Hub {
            client: Client::new(tower::service_fn(answer), "default"),
            url: String::new(),
        }
    }

    fn item(path: &str, number: usize) -> Value {
        let name = format!("web-{number:03}");
        match path.ends_with("instances") {
            true => json!({"metadata": {"namespace": "ns", "name": name}}),
            false => json!({
                "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
                "metadata": {"namespace": "ns", "name": format!("{name}-instance")},
                "spec": {
                    "resource": {"apiVersion": api::API_VERSION, "kind": "Instance", "namespace": "ns", "name": name},
                    "clusters": [{"name": "dfw1", "replicas": number + 1}],
                },
            }),
        }
    }

    async fn read(hub: &Hub) -> anyhow::Result<Vec<(String, i32)>> {
        let mut found = Vec::new();
        let add = |joined| {
            let subject = subject(InterpretedKind::Instance, &joined)?;
            found.push((subject.key().1.to_owned(), subject.share));
            Ok(())
        };
        hub.objects(InterpretedKind::Instance, add).await?;
        Ok(found)
    }

    #[tokio::test]
    async fn all_pages_are_read() {
        let expected: Vec<_> = (0..7).map(|it| (format!("web-{it:03}"), it + 1)).collect();
        assert_eq!(read(&hub(7, "none")).await.unwrap(), expected);
        assert!(read(&hub(0, "none")).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_continued_is_an_error() {
        for list in ["instances", "resourcebindings"] {
            let error = read(&hub(7, list)).await.unwrap_err().to_string();
            assert!(error.contains("run the command again"), "{error}");
        }
    }
}
