//! Rules of the volumes of an instance.

use std::collections::HashSet;

use api::allowed::{DISK_TYPES, FILE_MODES, FILESYSTEMS, IMAGES};
use api::quantity::{Amount, NANOS};

use super::names::{DefaultedNames, UsedValues, check_unique_label};
use crate::admission::field_error::{ErrorSink, FieldError, FieldPath, supported};
use crate::admission::workload_view::{
    ConfigMapView, DiskSpecView, DiskView, InstanceSpecView, KeyToPathView, PopulatorView,
    SecretView, StorageRequestView, VolumeView,
};

const GI: i128 = 1 << 30;
/// Smallest and largest disk, in Gi.
const DISK_MIN: i128 = 10;
const DISK_MAX: i128 = 100;
/// Smallest disk that holds an operating system image, in Gi.
const IMAGE_MIN: i128 = 25;
const ONE_SOURCE: &str = "may not specify more than one volume source";

pub(super) fn check(
    instance: &FieldPath<'_>,
    values: &InstanceSpecView<'_>,
    report: &mut ErrorSink<'_>,
) {
    let path = instance.field("volumes");
    let attached = attached(values);
    let mut names = UsedValues::new();
    let mut devices =
        DefaultedNames::new(DEVICE, &values.volumes, VolumeView::device, |it| &it.name);
    for (index, volume) in values.volumes.iter().enumerate() {
        let name = volume.name.as_ref();
        let path = path.element(index, name);
        let is_first = !names.contains_key(name);
        check_unique_label(&path.field("name"), name, &mut names, report);
        if is_first && !name.is_empty() && !attached.contains(name) {
            report(
                &path.field("name"),
                FieldError::required(
                    "the volume must be attached by a container or the virtual machine",
                ),
            );
        }
        let disk = path.field("disk");
        devices.check_unique(index, &disk.field("deviceName"), volume, report);
        check_source(&path, volume, report);
    }
}

/// A volume without a device name gets this prefix and its index as the device name. Volumes that are not disks get one
/// too.
const DEVICE: &str = "persistent-disk-";

/// Returns the names of the volumes that the containers or the virtual machine attach.
fn attached<'a>(values: &'a InstanceSpecView<'_>) -> HashSet<&'a str> {
    let runtime = &values.runtime;
    let containers = runtime
        .sandbox
        .iter()
        .flat_map(|sandbox| &sandbox.containers);
    let of_containers = containers.flat_map(|container| &container.volume_attachments);
    let machine = runtime.virtual_machine.iter();
    let of_machine = machine.flat_map(|machine| &machine.volume_attachments);
    of_containers
        .chain(of_machine)
        .map(|attachment| attachment.name.as_ref())
        .collect()
}

/// Checks the source of the volume. A volume must have one source. Any further source is reported as forbidden, and its
/// fields are not checked.
fn check_source(volume: &FieldPath<'_>, values: &VolumeView<'_>, report: &mut ErrorSink<'_>) {
    let VolumeView {
        disk,
        config_map,
        secret,
        ..
    } = values;
    let (disk_path, config_map_path, secret_path) = (
        volume.field("disk"),
        volume.field("configMap"),
        volume.field("secret"),
    );
    if disk.is_none() && config_map.is_none() && secret.is_none() {
        report(volume, FieldError::required("must specify a volume source"));
    }
    if let Some(disk) = disk {
        check_disk(&disk_path, disk, report);
    }
    match config_map {
        Some(source) if disk.is_some() => {
            report(&config_map_path, FieldError::forbidden(source, ONE_SOURCE));
        }
        Some(source) => check_config_map(&config_map_path, source, report),
        None => {}
    }
    match secret {
        Some(source) if disk.is_some() || config_map.is_some() => {
            report(&secret_path, FieldError::forbidden(source, ONE_SOURCE));
        }
        Some(source) => check_secret(&secret_path, source, report),
        None => {}
    }
}

fn check_disk(disk: &FieldPath<'_>, values: &DiskView<'_>, report: &mut ErrorSink<'_>) {
    let template = disk.field("template");
    let Some(values) = &values.template else {
        return report(
            &template,
            FieldError::required("what the disk is made from"),
        );
    };
    let DiskSpecView {
        type_,
        populator,
        resources,
    } = &values.spec;
    let spec = template.field("spec");
    // A missing type is valid. The API server sets the type to the only valid value.
    if let Some(type_) = type_
        && !DISK_TYPES.contains(&type_.0.as_ref())
    {
        report(
            &spec.field("type"),
            FieldError::not_supported(&type_.0, supported(DISK_TYPES)),
        );
    }
    // The path does not contain `spec`. The path in the error of the Go manager is the same.
    if let Some(populator) = populator {
        check_populator(&template.field("populator"), populator, report);
    }
    let has_image = values.has_image();
    let path = spec.field("resources");
    let Some(resources) = resources else {
        if !has_image {
            report(
                &path,
                FieldError::required("a disk that is not populated by an image needs a size"),
            );
        }
        return;
    };
    let path = path.field("requests");
    match &resources.requests {
        Some(requests) => check_size(&path.key("storage"), requests, has_image, report),
        None => report(&path, FieldError::required("")),
    }
}

fn check_populator(path: &FieldPath<'_>, values: &PopulatorView<'_>, report: &mut ErrorSink<'_>) {
    let PopulatorView { image, filesystem } = values;
    if let Some(image) = image
        && !IMAGES.contains(&image.name.as_ref())
    {
        let path = path.field("image");
        report(
            &path.field("name"),
            FieldError::not_supported(&image.name, supported(IMAGES)),
        );
    }
    let Some(filesystem) = filesystem else {
        return;
    };
    let path = path.field("filesystem");
    let type_ = filesystem.type_.as_ref();
    if image.is_some() {
        report(
            &path,
            FieldError::forbidden(type_, "may not specify more than one populator"),
        );
    } else if !FILESYSTEMS.contains(&type_) {
        report(
            &path.field("type"),
            FieldError::not_supported(type_, supported(FILESYSTEMS)),
        );
    }
}

fn check_size(
    path: &FieldPath<'_>,
    requests: &StorageRequestView,
    has_image: bool,
    report: &mut ErrorSink<'_>,
) {
    let Some(size) = &requests.storage else {
        return report(path, FieldError::required(""));
    };
    let mut invalid = |rule: String| report(path, FieldError::invalid(size.0.as_str(), rule));
    let nanos = match size.amount().map(Amount::nanos) {
        Ok(nanos) if nanos > 0 => nanos,
        Ok(_) => return invalid("must be greater than 0".to_owned()),
        Err(_) => return invalid("must be a quantity, such as 10Gi".to_owned()),
    };
    let gi = |count: i128| count * GI * NANOS;
    let rules = [
        (
            nanos < gi(DISK_MIN),
            format!("must be greater than or equal to {DISK_MIN}Gi"),
        ),
        (
            nanos > gi(DISK_MAX),
            format!("must be less than or equal to {DISK_MAX}Gi"),
        ),
        (nanos % gi(1) != 0, "must be a multiple of 1Gi".to_owned()),
    ];
    if has_image && nanos < gi(IMAGE_MIN) && rules.iter().all(|(broken, _)| !broken) {
        return invalid(format!(
            "must be greater than or equal to {IMAGE_MIN}Gi, the size of the image"
        ));
    }
    for (_, rule) in rules.into_iter().filter(|(broken, _)| *broken) {
        invalid(rule);
    }
}

fn check_config_map(path: &FieldPath<'_>, values: &ConfigMapView<'_>, report: &mut ErrorSink<'_>) {
    if values.name.is_empty() {
        report(&path.field("name"), FieldError::required(""));
    }
    check_files(path, values.default_mode, &values.items, report);
}

fn check_secret(path: &FieldPath<'_>, values: &SecretView<'_>, report: &mut ErrorSink<'_>) {
    if values.name.is_empty() {
        report(&path.field("secretName"), FieldError::required(""));
    }
    check_files(path, values.default_mode, &values.items, report);
}

/// Checks the fields that map the keys of a ConfigMap or Secret to files. Every key becomes a file with the name of the
/// key. `items` is therefore forbidden.
fn check_files(
    path: &FieldPath<'_>,
    default_mode: Option<i32>,
    items: &[KeyToPathView<'_>],
    report: &mut ErrorSink<'_>,
) {
    if let Some(mode) = default_mode
        && !FILE_MODES.contains(&mode)
    {
        report(
            &path.field("defaultMode"),
            FieldError::invalid(mode, "must be between 0 and 0777 (octal), inclusive"),
        );
    }
    if !items.is_empty() {
        report(
            &path.field("items"),
            FieldError::forbidden(items, "every key becomes a file, under its own name"),
        );
    }
}
