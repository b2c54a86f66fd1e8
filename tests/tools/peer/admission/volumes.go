package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const oneSource = "may not specify more than one volume source"

var (
	supportedDiskTypes   = sets.New("pd-standard")
	supportedImages      = sets.New("datumcloud/ubuntu-2204-lts")
	supportedFilesystems = sets.New("ext4")

	oneGi     = resource.MustParse("1Gi")
	leastDisk = resource.MustParse("10Gi")
	imageDisk = resource.MustParse("25Gi")
	mostDisk  = resource.MustParse("100Gi")
)

func validateVolumes(path *field.Path, instance *InstanceSpec) field.ErrorList {
	attached := attachedVolumes(&instance.Runtime)
	var errs field.ErrorList
	names, devices := sets.New[string](), sets.New[string]()
	for index := range instance.Volumes {
		volume, path := &instance.Volumes[index], path.Index(index)
		first := !names.Has(volume.Name)
		errs = append(errs, validateUniqueLabel(path.Child("name"), volume.Name, names)...)
		if first && volume.Name != "" && !attached.Has(volume.Name) {
			errs = append(errs, field.Required(path.Child("name"), "the volume must be attached by a container or the virtual machine"))
		}
		device := fmt.Sprintf("persistent-disk-%d", index)
		if volume.Disk != nil && volume.Disk.DeviceName != nil {
			device = *volume.Disk.DeviceName
		}
		errs = append(errs, validateUnique(path.Child("disk", "deviceName"), device, devices)...)
		errs = append(errs, validateSource(path, volume)...)
	}
	return errs
}

func attachedVolumes(runtime *InstanceRuntimeSpec) sets.Set[string] {
	attached := sets.New[string]()
	add := func(attachments []VolumeAttachment) {
		for index := range attachments {
			attached.Insert(attachments[index].Name)
		}
	}
	if runtime.Sandbox != nil {
		for index := range runtime.Sandbox.Containers {
			add(runtime.Sandbox.Containers[index].VolumeAttachments)
		}
	}
	if runtime.VirtualMachine != nil {
		add(runtime.VirtualMachine.VolumeAttachments)
	}
	return attached
}

// validateSource allows one source. It rejects further sources without checking them.
func validateSource(path *field.Path, volume *InstanceVolume) field.ErrorList {
	var errs field.ErrorList
	sources := 0
	if volume.Disk != nil {
		sources++
		errs = append(errs, validateDisk(path.Child("disk", "template"), volume.Disk.Template)...)
	}
	if source := volume.ConfigMap; source != nil {
		sources++
		path := path.Child("configMap")
		if sources > 1 {
			errs = append(errs, field.Forbidden(path, oneSource))
		} else {
			if source.Name == "" {
				errs = append(errs, field.Required(path.Child("name"), ""))
			}
			errs = append(errs, validateFiles(path, source.DefaultMode, source.Items)...)
		}
	}
	if source := volume.Secret; source != nil {
		sources++
		path := path.Child("secret")
		if sources > 1 {
			errs = append(errs, field.Forbidden(path, oneSource))
		} else {
			if source.SecretName == "" {
				errs = append(errs, field.Required(path.Child("secretName"), ""))
			}
			errs = append(errs, validateFiles(path, source.DefaultMode, source.Items)...)
		}
	}
	if sources == 0 {
		errs = append(errs, field.Required(path, "must specify a volume source"))
	}
	return errs
}

func validateDisk(path *field.Path, template *DiskTemplate) field.ErrorList {
	if template == nil {
		return field.ErrorList{field.Required(path, "what the disk is made from")}
	}
	var errs field.ErrorList
	disk, spec := &template.Spec, path.Child("spec")
	if disk.Type != "" && !supportedDiskTypes.Has(disk.Type) {
		errs = append(errs, field.NotSupported(spec.Child("type"), disk.Type, sets.List(supportedDiskTypes)))
	}
	hasImage := false
	if disk.Populator != nil {
		hasImage = disk.Populator.Image != nil
		errs = append(errs, validatePopulator(path.Child("populator"), disk.Populator)...)
	}
	path = spec.Child("resources")
	if disk.Resources == nil {
		if !hasImage {
			errs = append(errs, field.Required(path, "a disk that is not populated by an image needs a size"))
		}
		return errs
	}
	path = path.Child("requests")
	if disk.Resources.Requests == nil {
		return append(errs, field.Required(path, ""))
	}
	path = path.Key(string(corev1.ResourceStorage))
	size, found := disk.Resources.Requests[corev1.ResourceStorage]
	if !found {
		return append(errs, field.Required(path, ""))
	}
	return append(errs, validateSize(path, size, hasImage)...)
}

func validatePopulator(path *field.Path, populator *DiskPopulator) field.ErrorList {
	var errs field.ErrorList
	if image := populator.Image; image != nil && !supportedImages.Has(image.Name) {
		errs = append(errs, field.NotSupported(path.Child("image", "name"), image.Name, sets.List(supportedImages)))
	}
	filesystem := populator.Filesystem
	switch path := path.Child("filesystem"); {
	case filesystem == nil:
	case populator.Image != nil:
		errs = append(errs, field.Forbidden(path, "may not specify more than one populator"))
	case !supportedFilesystems.Has(filesystem.Type):
		errs = append(errs, field.NotSupported(path.Child("type"), filesystem.Type, sets.List(supportedFilesystems)))
	}
	return errs
}

func validateSize(path *field.Path, size resource.Quantity, hasImage bool) field.ErrorList {
	invalid := func(rule string) *field.Error {
		return field.Invalid(path, size.String(), rule)
	}
	if size.Sign() <= 0 {
		return field.ErrorList{invalid("must be greater than 0")}
	}
	var errs field.ErrorList
	if size.Cmp(leastDisk) < 0 {
		errs = append(errs, invalid("must be greater than or equal to 10Gi"))
	}
	if size.Cmp(mostDisk) > 0 {
		errs = append(errs, invalid("must be less than or equal to 100Gi"))
	}
	if size.Value()%oneGi.Value() != 0 {
		errs = append(errs, invalid("must be a multiple of 1Gi"))
	}
	if hasImage && len(errs) == 0 && size.Cmp(imageDisk) < 0 {
		errs = append(errs, invalid("must be greater than or equal to 25Gi, the size of the image"))
	}
	return errs
}

// validateFiles checks that a ConfigMap or Secret is mounted with all keys under their own names.
func validateFiles(path *field.Path, mode *int32, items []corev1.KeyToPath) field.ErrorList {
	var errs field.ErrorList
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		errs = append(errs, field.Invalid(path.Child("defaultMode"), *mode, "must be between 0 and 0777 (octal), inclusive"))
	}
	if len(items) > 0 {
		errs = append(errs, field.Forbidden(path.Child("items"), "every key becomes a file, under its own name"))
	}
	return errs
}
