//! Rules of the ConfigMaps and Secrets that a template uses, and of the right to read them.

use api::references::SourceKind;

use super::names::{check_subdomain, is_valid_subdomain};
use crate::admission::access_review::UsedKind;
use crate::admission::external_facts::{Refusals, UsedObject};
use crate::admission::field_error::{ErrorSink, FieldPath};
use crate::admission::workload_view::{ContainerView, InstanceSpecView};

/// One use of a ConfigMap or of a Secret.
struct Use<'w> {
    kind: SourceKind,
    name: &'w str,
    /// The field with the name, below the path of the use.
    field: &'static str,
}

/// Receives each use with its path, in the order of the errors.
type UseSink<'w, 's> = dyn FnMut(&FieldPath<'_>, Use<'w>) + 's;

pub(super) fn check(
    instance: &FieldPath<'_>,
    values: &InstanceSpecView<'_>,
    refusals: &Refusals<'_>,
    report: &mut ErrorSink<'_>,
) {
    for_each(instance, values, &mut |path, found| {
        check_subdomain(&path.field(found.field), found.name, report);
        let object = found.object();
        if let Some(refusal) = refusals.get(&object) {
            report(path, refusal.error(object));
        }
    });
}

/// Adds the ConfigMaps and Secrets that the template uses, one for each use, also for an optional one. A name that no
/// object can have is left out.
pub(super) fn add_used<'w>(values: &'w InstanceSpecView<'_>, objects: &mut Vec<UsedObject<'w>>) {
    let instance = FieldPath::root("");
    for_each(&instance, values, &mut |_, found| {
        if is_valid_subdomain(found.name) {
            objects.push(found.object());
        }
    });
}

impl<'w> Use<'w> {
    fn object(&self) -> UsedObject<'w> {
        UsedObject {
            kind: UsedKind::Data(self.kind),
            name: self.name,
        }
    }
}

/// Finds the uses in the places of `api::references`. An entry of `envFrom` with both sources has two uses here: what
/// becomes of such an entry is not known, so the requester needs the right to both.
fn for_each<'w>(
    instance: &FieldPath<'_>,
    values: &'w InstanceSpecView<'_>,
    sink: &mut UseSink<'w, '_>,
) {
    // An empty name is no reference.
    let sink: &mut UseSink<'w, '_> = &mut |path, found| {
        if !found.name.is_empty() {
            sink(path, found);
        }
    };
    if let Some(values) = &values.runtime.sandbox {
        let runtime = instance.field("runtime");
        let sandbox = runtime.field("sandbox");
        let containers = sandbox.field("containers");
        for (index, container) in values.containers.iter().enumerate() {
            of_variables(&containers.element(index, &container.name), container, sink);
        }
        let secrets = sandbox.field("imagePullSecrets");
        for (index, secret) in values.image_pull_secrets.iter().enumerate() {
            let path = secrets.element(index, &secret.name);
            sink(&path, by_name(SourceKind::Secret, &secret.name));
        }
    }
    let volumes = instance.field("volumes");
    for (index, volume) in values.volumes.iter().enumerate() {
        let path = volumes.element(index, &volume.name);
        if let Some(source) = &volume.config_map {
            let found = by_name(SourceKind::ConfigMap, &source.name);
            sink(&path.field("configMap"), found);
        }
        if let Some(source) = &volume.secret {
            let found = Use {
                field: "secretName",
                ..by_name(SourceKind::Secret, &source.name)
            };
            sink(&path.field("secret"), found);
        }
    }
}

/// Finds the uses in the environment variables of a container.
fn of_variables<'w>(
    container: &FieldPath<'_>,
    values: &'w ContainerView<'_>,
    sink: &mut UseSink<'w, '_>,
) {
    let (config_map, secret) = (SourceKind::ConfigMap, SourceKind::Secret);
    let variables = container.field("env");
    for (index, variable) in values.env.iter().enumerate() {
        let Some(source) = &variable.value_from else {
            continue;
        };
        for (field, kind, name) in [
            (
                "configMapKeyRef",
                config_map,
                &source.config_map_key_ref.name,
            ),
            ("secretKeyRef", secret, &source.secret_key_ref.name),
        ] {
            let variable = variables.element(index, name);
            sink(
                &variable.field("valueFrom").field(field),
                by_name(kind, name),
            );
        }
    }
    let sets = container.field("envFrom");
    for (index, set) in values.env_from.iter().enumerate() {
        for (field, kind, name) in [
            ("configMapRef", config_map, &set.config_map_ref.name),
            ("secretRef", secret, &set.secret_ref.name),
        ] {
            sink(&sets.element(index, name).field(field), by_name(kind, name));
        }
    }
}

fn by_name(kind: SourceKind, name: &str) -> Use<'_> {
    let field = "name";
    Use { kind, name, field }
}
