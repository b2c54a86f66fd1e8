package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/webhook/interpreter"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// instance has those fields of an Instance that interpretation reads.
type instance struct {
	Metadata struct {
		DeletionTimestamp json.RawMessage `json:"deletionTimestamp"`
		Namespace         string          `json:"namespace"`
	} `json:"metadata"`
	Spec   instanceSpec    `json:"spec"`
	Status json.RawMessage `json:"status"`
}

func interpretInstance(req interpreter.Request) (interpreter.Response, error) {
	var object instance
	response := interpreter.Succeeded("")
	if err := decode("request.object", req.Object.Raw, &object); err != nil {
		return response, err
	}
	switch req.Operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		response.Replicas = ptr.To[int32](1)
		if requirements := object.Spec.Runtime.requirements(); requirements != nil {
			response.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: requirements}
		}
	case configv1alpha1.InterpreterOperationInterpretComponent:
		response.Components = []workv1alpha2.Component{{
			Name:                "instance",
			Replicas:            1,
			ReplicaRequirements: componentRequirements(object.Spec.Runtime.requirements()),
		}}
	case configv1alpha1.InterpreterOperationReviseReplica:
	case configv1alpha1.InterpreterOperationRetain:
		return object.retain(req.ObservedObject)
	case configv1alpha1.InterpreterOperationAggregateStatus:
		return object.aggregate(req.AggregatedStatus)
	case configv1alpha1.InterpreterOperationInterpretDependency:
		response.Dependencies = object.Spec.dependencies(object.Metadata.Namespace, "")
	case configv1alpha1.InterpreterOperationInterpretStatus:
		status := object.Status
		if object.Metadata.DeletionTimestamp != nil || isNull(status) {
			status = json.RawMessage("{}")
		}
		response.RawStatus = &runtime.RawExtension{Raw: status}
	case configv1alpha1.InterpreterOperationInterpretHealth:
		response.Healthy = ptr.To(rankOf(object.Status) == ready)
	default:
		return response, unknownOperation(req.Operation)
	}
	return response, nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

func (i *instance) retain(observed *runtime.RawExtension) (interpreter.Response, error) {
	if observed == nil {
		return interpreter.Response{}, errors.New("request.observedObject: is missing")
	}
	var inCell struct {
		Spec struct {
			Controller json.RawMessage `json:"controller"`
		} `json:"spec"`
	}
	if err := decode("request.observedObject", observed.Raw, &inCell); err != nil {
		return interpreter.Response{}, err
	}
	if controller := inCell.Spec.Controller; !isNull(controller) && !same(i.Spec.Controller, controller) {
		return patched(add("/spec/controller", controller))
	}
	return patched()
}

// rank orders statuses by the amount of information in them.
type rank int

const (
	nothing rank = iota
	byDefault
	notReady
	ready
)

func rankOf(raw json.RawMessage) rank {
	var status struct {
		Conditions []condition `json:"conditions"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &status) != nil || len(status.Conditions) == 0 {
		return nothing
	}
	for _, condition := range status.Conditions {
		switch {
		case condition.Type != "Ready":
		case condition.Status == "True":
			return ready
		case condition.Status == "False" && condition.Reason != "Pending":
			return notReady
		default:
			return byDefault
		}
	}
	return byDefault
}

func (i *instance) aggregate(items []workv1alpha2.AggregatedStatusItem) (interpreter.Response, error) {
	count := len(items)
	items = slices.DeleteFunc(slices.Clone(items), func(item workv1alpha2.AggregatedStatusItem) bool {
		return item.Status == nil || isNull(item.Status.Raw) || bytes.Equal(item.Status.Raw, []byte("{}"))
	})
	slices.SortStableFunc(items, func(one, other workv1alpha2.AggregatedStatusItem) int {
		return cmp.Compare(one.ClusterName, other.ClusterName)
	})
	var best json.RawMessage
	highest := nothing
	for _, item := range items {
		if rank := rankOf(item.Status.Raw); best == nil || rank > highest {
			best, highest = item.Status.Raw, rank
		}
	}
	outranked := count > 1 && rankOf(i.Status) > highest
	if best == nil || outranked || same(i.Status, best) {
		return patched()
	}
	return patched(add("/status", best))
}

// same returns whether two JSON texts have the same value.
func same(one, other []byte) bool {
	if bytes.Equal(one, other) {
		return true
	}
	var first, second any
	if json.Unmarshal(one, &first) != nil || json.Unmarshal(other, &second) != nil {
		return false
	}
	return reflect.DeepEqual(first, second)
}
