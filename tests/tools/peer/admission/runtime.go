package main

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const byInstanceType = "the instance type determines the resources"

var supportedInstanceTypes = sets.New("datumcloud/d1-standard-2")

// validateRuntime checks a sandbox. The benchmark has no virtual machines, so their other rules are missing here.
func validateRuntime(path *field.Path, instance *InstanceSpec) field.ErrorList {
	volumes := make(map[string]*InstanceVolume, len(instance.Volumes))
	for index := range instance.Volumes {
		volume := &instance.Volumes[index]
		if _, found := volumes[volume.Name]; !found {
			volumes[volume.Name] = volume
		}
	}
	runtime := &instance.Runtime
	errs := validateResources(path.Child("resources"), &runtime.Resources)
	switch {
	case runtime.Sandbox != nil:
		errs = append(errs, validateSandbox(path.Child("sandbox"), runtime.Sandbox, volumes)...)
		if runtime.VirtualMachine != nil {
			errs = append(errs, field.Forbidden(path.Child("virtualMachine"), "may not specify more than one runtime"))
		}
	case runtime.VirtualMachine == nil:
		errs = append(errs, field.Required(path, "one of sandbox, virtualMachine"))
	}
	return errs
}

func validateResources(path *field.Path, resources *InstanceRuntimeResources) field.ErrorList {
	var errs field.ErrorList
	if !supportedInstanceTypes.Has(resources.InstanceType) {
		errs = append(errs, field.NotSupported(path, resources.InstanceType, sets.List(supportedInstanceTypes)))
	}
	if len(resources.Requests) > 0 {
		errs = append(errs, field.Forbidden(path.Child("requests"), byInstanceType))
	}
	return errs
}

func validateSandbox(path *field.Path, sandbox *SandboxRuntime, volumes map[string]*InstanceVolume) field.ErrorList {
	var errs field.ErrorList
	containers := path.Child("containers")
	if len(sandbox.Containers) == 0 {
		errs = append(errs, field.Required(containers, "at least one"))
	}
	names := sets.New[string]()
	for index := range sandbox.Containers {
		container, path := &sandbox.Containers[index], containers.Index(index)
		errs = append(errs, validateUniqueLabel(path.Child("name"), container.Name, names)...)
		if container.Image == "" {
			errs = append(errs, field.Required(path.Child("image"), ""))
		}
		if container.Resources != nil {
			errs = append(errs, field.Forbidden(path.Child("resources"), byInstanceType))
		}
		errs = append(errs, validateAttachments(path.Child("volumeAttachments"), container.VolumeAttachments, volumes)...)
		errs = append(errs, validatePorts(path.Child("ports"), container.Ports)...)
	}
	for index := range sandbox.ImagePullSecrets {
		if sandbox.ImagePullSecrets[index].Name == "" {
			errs = append(errs, field.Required(path.Child("imagePullSecrets").Index(index).Child("name"), ""))
		}
	}
	return errs
}

func validateAttachments(path *field.Path, attachments []VolumeAttachment, volumes map[string]*InstanceVolume) field.ErrorList {
	var errs field.ErrorList
	mountPaths := sets.New[string]()
	for index := range attachments {
		attachment, path := &attachments[index], path.Index(index)
		volume := volumes[attachment.Name]
		if volume == nil {
			errs = append(errs, field.NotFound(path.Child("name"), attachment.Name))
		}
		if attachment.MountPath == nil {
			continue
		}
		path = path.Child("mountPath")
		if volume != nil && volume.Disk != nil {
			switch template := volume.Disk.Template; {
			case template == nil:
				errs = append(errs, field.InternalError(path, errors.New("nothing is known of a disk without a template")))
			case template.Spec.Populator == nil:
				// A disk without a populator has no file system to mount.
				errs = append(errs, field.NotFound(path, *attachment.MountPath))
			}
		}
		errs = append(errs, validateUnique(path, *attachment.MountPath, mountPaths)...)
	}
	return errs
}

func validatePorts(path *field.Path, ports []NamedPort) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for index := range ports {
		port, path := &ports[index], path.Index(index)
		if port.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), ""))
		} else {
			for _, rule := range validation.IsValidPortName(port.Name) {
				errs = append(errs, field.Invalid(path.Child("name"), port.Name, rule))
			}
			errs = append(errs, validateUnique(path.Child("name"), port.Name, names)...)
		}
		for _, rule := range validation.IsValidPortNum(int(port.Port)) {
			errs = append(errs, field.Invalid(path.Child("port"), port.Port, rule))
		}
	}
	return errs
}
