package main

import (
	"encoding/json"
	"slices"
	"strings"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// instanceSpec has those fields of an Instance's spec that interpretation reads.
type instanceSpec struct {
	Controller json.RawMessage `json:"controller"`
	Runtime    runtimeSpec     `json:"runtime"`
	Volumes    []struct {
		ConfigMap named `json:"configMap"`
		Secret    struct {
			SecretName string `json:"secretName"`
		} `json:"secret"`
	} `json:"volumes"`
}

type runtimeSpec struct {
	Resources struct {
		InstanceType string              `json:"instanceType"`
		Requests     corev1.ResourceList `json:"requests"`
	} `json:"resources"`
	Sandbox *struct {
		Containers       []container `json:"containers"`
		ImagePullSecrets []named     `json:"imagePullSecrets"`
	} `json:"sandbox"`
}

type container struct {
	Env []struct {
		ValueFrom struct {
			ConfigMapKeyRef named `json:"configMapKeyRef"`
			SecretKeyRef    named `json:"secretKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
	Resources struct {
		Limits corev1.ResourceList `json:"limits"`
	} `json:"resources"`
}

type named struct {
	Name string `json:"name"`
}

// requirements returns the requirements of one instance. It uses the sum of the container limits if there is one.
// Otherwise it uses the requests of the runtime, or the size of the instance type. If all of them are missing, it
// returns nil.
func (r *runtimeSpec) requirements() corev1.ResourceList {
	if limits := r.containerLimits(); limits != nil {
		return limits
	}
	if isSize(r.Resources.Requests) {
		return r.Resources.Requests
	}
	return instanceTypes[r.Resources.InstanceType]
}

func (r *runtimeSpec) containerLimits() corev1.ResourceList {
	if r.Sandbox == nil || len(r.Sandbox.Containers) == 0 {
		return nil
	}
	sum := corev1.ResourceList{}
	for _, container := range r.Sandbox.Containers {
		if !isSize(container.Resources.Limits) {
			return nil
		}
		for name, limit := range container.Resources.Limits {
			total := sum[name]
			total.Add(limit)
			sum[name] = total
		}
	}
	return sum
}

func isSize(resources corev1.ResourceList) bool {
	_, cpu := resources[corev1.ResourceCPU]
	_, memory := resources[corev1.ResourceMemory]
	return cpu && memory
}

// dependencies returns the ConfigMaps and Secrets in this namespace that the spec or the annotation mentions. They are
// sorted and unique.
func (s *instanceSpec) dependencies(namespace, annotation string) []configv1alpha1.DependentObjectReference {
	type key struct{ kind, name string }
	found := map[key]struct{}{}
	use := func(kind, name string) {
		if name != "" {
			found[key{kind, name}] = struct{}{}
		}
	}
	for _, volume := range s.Volumes {
		use("ConfigMap", volume.ConfigMap.Name)
		use("Secret", volume.Secret.SecretName)
	}
	if sandbox := s.Runtime.Sandbox; sandbox != nil {
		for _, container := range sandbox.Containers {
			for _, variable := range container.Env {
				use("ConfigMap", variable.ValueFrom.ConfigMapKeyRef.Name)
				use("Secret", variable.ValueFrom.SecretKeyRef.Name)
			}
		}
		for _, secret := range sandbox.ImagePullSecrets {
			use("Secret", secret.Name)
		}
	}
	for index, token := range strings.Split(annotation, `"`) {
		kind, name, separated := strings.Cut(token, "/")
		if index%2 == 1 && separated && (kind == "ConfigMap" || kind == "Secret") && !strings.Contains(name, "/") {
			use(kind, name)
		}
	}
	references := make([]configv1alpha1.DependentObjectReference, 0, len(found))
	for dependency := range found {
		references = append(references, configv1alpha1.DependentObjectReference{
			APIVersion: "v1", Kind: dependency.kind, Namespace: namespace, Name: dependency.name,
		})
	}
	slices.SortFunc(references, func(one, other configv1alpha1.DependentObjectReference) int {
		if order := strings.Compare(one.Kind, other.Kind); order != 0 {
			return order
		}
		return strings.Compare(one.Name, other.Name)
	})
	return references
}
