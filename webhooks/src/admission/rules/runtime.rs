//! Rules of the runtime. The runtime is a sandbox of containers or a virtual machine.

use std::collections::HashMap;

use api::allowed::{INSTANCE_TYPES, PORTS};

use super::names::{UsedValues, check_port_name, check_unique, check_unique_label};
use crate::admission::field_error::{ErrorSink, FieldError, FieldPath, supported};
use crate::admission::workload_view::{
    ContainerView, InstanceSpecView, PortView, RuntimeResourcesView, SandboxView,
    VirtualMachineView, VolumeAttachmentView, VolumeView,
};

const BY_INSTANCE_TYPE: &str = "the instance type determines the resources";

/// The volumes of the instance by name. If several volumes have the same name, the map contains the first volume.
type Volumes<'v> = HashMap<&'v str, &'v VolumeView<'v>>;

pub(super) fn check(
    instance: &FieldPath<'_>,
    values: &InstanceSpecView<'_>,
    report: &mut ErrorSink<'_>,
) {
    let path = instance.field("runtime");
    let mut volumes = Volumes::new();
    for volume in &values.volumes {
        volumes.entry(&volume.name).or_insert(volume);
    }
    let runtime = &values.runtime;
    check_resources(&path.field("resources"), &runtime.resources, report);
    let machine_path = path.field("virtualMachine");
    match (&runtime.sandbox, &runtime.virtual_machine) {
        (Some(sandbox), machine) => {
            check_sandbox(&path.field("sandbox"), sandbox, &volumes, report);
            if let Some(machine) = machine {
                report(
                    &machine_path,
                    FieldError::forbidden(machine, "may not specify more than one runtime"),
                );
            }
        }
        (None, Some(machine)) => check_machine(&machine_path, machine, &volumes, report),
        (None, None) => report(
            &path,
            FieldError::required("one of sandbox, virtualMachine"),
        ),
    }
}

fn check_resources(
    path: &FieldPath<'_>,
    values: &RuntimeResourcesView<'_>,
    report: &mut ErrorSink<'_>,
) {
    let RuntimeResourcesView {
        instance_type,
        requests,
    } = values;
    if !INSTANCE_TYPES.contains(&instance_type.as_ref()) {
        report(
            path,
            FieldError::not_supported(instance_type, supported(INSTANCE_TYPES)),
        );
    }
    if let Some(requests) = requests
        && requests.get() != "{}"
    {
        report(
            &path.field("requests"),
            FieldError::forbidden(requests.get(), BY_INSTANCE_TYPE),
        );
    }
}

fn check_sandbox(
    path: &FieldPath<'_>,
    values: &SandboxView<'_>,
    volumes: &Volumes<'_>,
    report: &mut ErrorSink<'_>,
) {
    let containers = path.field("containers");
    if values.containers.is_empty() {
        report(&containers, FieldError::required("at least one"));
    }
    let mut names = UsedValues::new();
    for (index, container) in values.containers.iter().enumerate() {
        let path = containers.element(index, &container.name);
        check_unique_label(&path.field("name"), &container.name, &mut names, report);
        check_container(&path, container, volumes, report);
    }
    let secrets = path.field("imagePullSecrets");
    for (index, secret) in values.image_pull_secrets.iter().enumerate() {
        if secret.name.is_empty() {
            let path = secrets.element(index, &secret.name);
            report(&path.field("name"), FieldError::required(""));
        }
    }
}

fn check_container(
    path: &FieldPath<'_>,
    values: &ContainerView<'_>,
    volumes: &Volumes<'_>,
    report: &mut ErrorSink<'_>,
) {
    if values.image.is_empty() {
        report(&path.field("image"), FieldError::required(""));
    }
    if let Some(resources) = values.resources {
        report(
            &path.field("resources"),
            FieldError::forbidden(resources.get(), BY_INSTANCE_TYPE),
        );
    }
    check_attachments(
        &path.field("volumeAttachments"),
        &values.volume_attachments,
        volumes,
        report,
    );
    check_ports(&path.field("ports"), &values.ports, report);
}

fn check_machine(
    path: &FieldPath<'_>,
    values: &VirtualMachineView<'_>,
    volumes: &Volumes<'_>,
    report: &mut ErrorSink<'_>,
) {
    let attachments = path.field("volumeAttachments");
    match values.volume_attachments.first() {
        Some(boot) => {
            let volume = volumes.get(boot.name.as_ref());
            if volume.is_some_and(|volume| !volume.has_image()) {
                let boot_path = attachments.element(0, &boot.name);
                report(
                    &boot_path.field("name"),
                    FieldError::required(
                        "the machine boots from the first attached volume, which must be a disk that is populated by an image",
                    ),
                );
            }
        }
        None => report(&attachments, FieldError::required("at least the boot disk")),
    }
    check_attachments(&attachments, &values.volume_attachments, volumes, report);
    check_ports(&path.field("ports"), &values.ports, report);
}

fn check_attachments(
    path: &FieldPath<'_>,
    attachments: &[VolumeAttachmentView<'_>],
    volumes: &Volumes<'_>,
    report: &mut ErrorSink<'_>,
) {
    let mut mount_paths = UsedValues::new();
    for (index, attachment) in attachments.iter().enumerate() {
        let name = attachment.name.as_ref();
        let path = path.element(index, name);
        let volume = volumes.get(name);
        if volume.is_none() {
            report(&path.field("name"), FieldError::not_found(name));
        }
        let Some(mount_path) = &attachment.mount_path else {
            continue;
        };
        let path = path.field("mountPath");
        if let Some(disk) = volume.and_then(|volume| volume.disk.as_ref()) {
            match &disk.template {
                None => report(
                    &path,
                    FieldError::internal("nothing is known of a disk without a template")
                        .about(&mount_path.0),
                ),
                // A disk without a populator has no file system, so the disk cannot be mounted.
                Some(template) if template.spec.populator.is_none() => {
                    report(&path, FieldError::not_found(&mount_path.0));
                }
                Some(_) => {}
            }
        }
        check_unique(&path, &mount_path.0, name, &mut mount_paths, report);
    }
}

fn check_ports(path: &FieldPath<'_>, ports: &[PortView<'_>], report: &mut ErrorSink<'_>) {
    let mut names = UsedValues::new();
    for (index, PortView { name, port }) in ports.iter().enumerate() {
        let path = path.element(index, name);
        let name_path = path.field("name");
        if name.is_empty() {
            report(&name_path, FieldError::required(""));
        } else {
            check_port_name(&name_path, name, report);
            check_unique(&name_path, name, name, &mut names, report);
        }
        if !PORTS.contains(port) {
            report(
                &path.field("port"),
                FieldError::invalid(*port, "must be between 1 and 65535, inclusive"),
            );
        }
    }
}
