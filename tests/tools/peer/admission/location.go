package main

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const cityCodeTopology = "topology.datum.net/city-code"

// LocationBinding lets a project use a location.
type LocationBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              LocationBindingSpec   `json:"spec"`
	Status            LocationBindingStatus `json:"status,omitempty"`
}

type LocationBindingSpec struct {
	LocationRef       LocationReference `json:"locationRef"`
	LocationClassName string            `json:"locationClassName,omitempty"`
	DisplayName       string            `json:"displayName,omitempty"`
	Topology          map[string]string `json:"topology,omitempty"`
}

type LocationReference struct {
	Name string `json:"name"`
}

type LocationBindingStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LocationBindingList is a list of LocationBindings.
type LocationBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LocationBinding `json:"items"`
}

// DeepCopyInto copies all data that the object shares with the cache.
func (l *LocationBinding) DeepCopyInto(out *LocationBinding) {
	*out = *l
	l.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Topology = maps.Clone(l.Spec.Topology)
	// Conditions contain no pointers.
	out.Status.Conditions = slices.Clone(l.Status.Conditions)
}

// DeepCopyObject implements runtime.Object.
func (l *LocationBinding) DeepCopyObject() runtime.Object {
	out := &LocationBinding{}
	l.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *LocationBindingList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]LocationBinding, len(l.Items))
	for index := range l.Items {
		l.Items[index].DeepCopyInto(&out.Items[index])
	}
	return &out
}

// cityCodes returns the codes of the cities that the project may use.
func cityCodes(ctx context.Context, locations client.Reader) (sets.Set[string], error) {
	var bindings LocationBindingList
	if err := locations.List(ctx, &bindings); err != nil {
		return nil, err
	}
	codes := sets.New[string]()
	for index := range bindings.Items {
		if code, found := bindings.Items[index].Spec.Topology[cityCodeTopology]; found {
			codes.Insert(code)
		}
	}
	return codes, nil
}
