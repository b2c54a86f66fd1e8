package main

import (
	"encoding/json"
	"errors"
	"strconv"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/webhook/interpreter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

const (
	referencedData     = "compute.datumapis.com/expected-referenced-data"
	templateGeneration = "resourcetemplate.karmada.io/generation"
	// rulesStamp is the annotation with the number of the rules of the cell.
	rulesStamp = "compute.datumapis.com/cell-rules-stamp"
	// assignedAnnotation is the annotation that records a share.
	assignedAnnotation = "compute.datumapis.com/assigned-replicas"
	// assignedReplicas is the path of that annotation.
	assignedReplicas = "/metadata/annotations/compute.datumapis.com~1assigned-replicas"
)

var instanceTypes = map[string]corev1.ResourceList{
	"datumcloud/d1-standard-2": {
		corev1.ResourceCPU:    resource.MustParse("1"),
		corev1.ResourceMemory: resource.MustParse("2Gi"),
	},
}

// deployment has those fields of a WorkloadDeployment that interpretation reads.
type deployment struct {
	Metadata struct {
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp json.RawMessage   `json:"deletionTimestamp"`
		Generation        *int64            `json:"generation"`
		Namespace         string            `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Replicas      *int32 `json:"replicas"`
		ScaleSettings struct {
			MaxReplicas *int32 `json:"maxReplicas"`
			MinReplicas *int32 `json:"minReplicas"`
		} `json:"scaleSettings"`
		Template struct {
			Spec instanceSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status json.RawMessage `json:"status"`
}

func interpretDeployment(req interpreter.Request) (interpreter.Response, error) {
	var object deployment
	response := interpreter.Succeeded("")
	if err := decode("request.object", req.Object.Raw, &object); err != nil {
		return response, err
	}
	var err error
	switch req.Operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		err = object.replicas(&response)
	case configv1alpha1.InterpreterOperationInterpretComponent:
		err = object.components(&response)
	case configv1alpha1.InterpreterOperationReviseReplica:
		return object.revise(ptr.Deref(req.DesiredReplicas, 0))
	case configv1alpha1.InterpreterOperationRetain:
		return object.retain(req.ObservedObject)
	case configv1alpha1.InterpreterOperationAggregateStatus:
		return object.aggregate(req.AggregatedStatus)
	case configv1alpha1.InterpreterOperationInterpretDependency:
		annotation := object.Metadata.Annotations[referencedData]
		response.Dependencies = object.Spec.Template.Spec.dependencies(object.Metadata.Namespace, annotation)
	case configv1alpha1.InterpreterOperationInterpretStatus:
		err = object.reportedStatus(&response)
	case configv1alpha1.InterpreterOperationInterpretHealth:
		err = object.health(&response)
	default:
		err = unknownOperation(req.Operation)
	}
	return response, err
}

// desired returns the number of instances.
func (d *deployment) desired() (int32, error) {
	switch {
	case d.Spec.Replicas != nil:
		return max(*d.Spec.Replicas, 0), nil
	case d.Spec.ScaleSettings.MinReplicas != nil:
		return max(*d.Spec.ScaleSettings.MinReplicas, 0), nil
	default:
		return 0, errors.New("spec.scaleSettings.minReplicas: is missing, and so is spec.replicas")
	}
}

func (d *deployment) replicas(response *interpreter.Response) error {
	desired, err := d.desired()
	if err != nil {
		return err
	}
	response.Replicas = &desired
	if requirements := d.Spec.Template.Spec.Runtime.requirements(); desired > 0 && requirements != nil {
		response.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: requirements}
	}
	return nil
}

func (d *deployment) components(response *interpreter.Response) error {
	desired, err := d.desired()
	if err != nil {
		return err
	}
	response.Components = []workv1alpha2.Component{{
		Name:                "instances",
		Replicas:            desired,
		ReplicaRequirements: componentRequirements(d.Spec.Template.Spec.Runtime.requirements()),
	}}
	return nil
}

func componentRequirements(resources corev1.ResourceList) *workv1alpha2.ComponentReplicaRequirements {
	if resources == nil {
		return nil
	}
	return &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: resources}
}

// assigned is the value of the annotation that records a share.
type assigned struct {
	Field      string `json:"field"`
	Generation *int64 `json:"generation,omitempty"`
	Share      int32  `json:"share"`
	Total      int32  `json:"total"`
}

func (d *deployment) revise(share int32) (interpreter.Response, error) {
	total, err := d.desired()
	// A share of 0 is from a binding without assigned replicas.
	if err != nil || share <= 0 && total > 0 {
		return interpreter.Succeeded(""), err
	}
	field := "spec.scaleSettings.minReplicas"
	if d.Spec.Replicas != nil {
		field = "spec.replicas"
	}
	var operations []operation
	if total != share {
		operations = d.divide(share, total)
	}
	record, err := json.Marshal(assigned{field, d.Metadata.Generation, share, total})
	if err != nil {
		return interpreter.Response{}, err
	}
	if d.Metadata.Annotations == nil {
		operations = append(operations, add("/metadata/annotations", map[string]string{}))
	}
	return patched(append(operations, add(assignedReplicas, string(record)))...)
}

// divide sets the share, and the part of the maximum.
func (d *deployment) divide(share, total int32) []operation {
	scale := d.Spec.ScaleSettings
	var operations []operation
	var minimum int32
	if d.Spec.Replicas != nil {
		operations = append(operations, add("/spec/replicas", share))
		minimum = ptr.Deref(scale.MinReplicas, 0)
	} else {
		operations = append(operations, add("/spec/scaleSettings/minReplicas", share))
		minimum = share
	}
	if scale.MaxReplicas != nil {
		part := int64(*scale.MaxReplicas)
		if total != 0 {
			part = part * int64(share) / int64(total)
		}
		if part = max(part, int64(minimum)); part != int64(*scale.MaxReplicas) {
			operations = append(operations, add("/spec/scaleSettings/maxReplicas", part))
		}
	}
	return operations
}

func (d *deployment) retain(observed *runtime.RawExtension) (interpreter.Response, error) {
	if observed == nil {
		return interpreter.Response{}, errors.New("request.observedObject: is missing")
	}
	var inCell struct {
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
	}
	if err := decode("request.observedObject", observed.Raw, &inCell); err != nil {
		return interpreter.Response{}, err
	}
	if d.Spec.Replicas == nil && inCell.Spec.Replicas != nil {
		return patched(add("/spec/replicas", *inCell.Spec.Replicas))
	}
	return patched()
}

// reportedStatus returns the whole status. It adds the generations and the shares that the aggregation needs.
func (d *deployment) reportedStatus(response *interpreter.Response) error {
	fields := map[string]json.RawMessage{}
	if d.Metadata.DeletionTimestamp == nil && len(d.Status) > 0 {
		if err := json.Unmarshal(d.Status, &fields); err != nil {
			return err
		}
	}
	if len(fields) > 0 {
		set := func(name string, number *int64) {
			delete(fields, name)
			if number != nil {
				fields[name] = strconv.AppendInt(nil, *number, 10)
			}
		}
		set("generation", d.Metadata.Generation)
		var ofTemplate *int64
		if number, err := strconv.ParseInt(d.Metadata.Annotations[templateGeneration], 10, 64); err == nil {
			ofTemplate = &number
		}
		set("resourceTemplateGeneration", ofTemplate)
		stamp, err := strconv.ParseInt(d.Metadata.Annotations[rulesStamp], 10, 64)
		if err != nil {
			stamp = 0
		}
		set("cellRulesStamp", &stamp)
		replicas, minimum := wide(d.Spec.Replicas), wide(d.Spec.ScaleSettings.MinReplicas)
		if share := d.recordedShare(ofTemplate); share != nil {
			set("assignedReplicas", share)
			set("assignedMinReplicas", nil)
		} else if replicas != nil {
			set("assignedReplicas", replicas)
			set("assignedMinReplicas", minimum)
		} else {
			set("assignedReplicas", minimum)
			set("assignedMinReplicas", nil)
		}
	}
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	raw, err := json.Marshal(fields)
	response.RawStatus = &runtime.RawExtension{Raw: raw}
	return err
}

// recordedShare returns the share that is recorded for this generation of the template, or nil.
func (d *deployment) recordedShare(ofTemplate *int64) *int64 {
	var record assigned
	if json.Unmarshal([]byte(d.Metadata.Annotations[assignedAnnotation]), &record) != nil {
		return nil
	}
	isField := record.Field == "spec.replicas" || record.Field == "spec.scaleSettings.minReplicas"
	if !isField || ptr.Deref(record.Generation, 0) != ptr.Deref(ofTemplate, 0) {
		return nil
	}
	return ptr.To(int64(record.Share))
}

func wide(number *int32) *int64 {
	if number == nil {
		return nil
	}
	return ptr.To(int64(*number))
}

func (d *deployment) health(response *interpreter.Response) error {
	desired, err := d.desired()
	if err != nil {
		return err
	}
	healthy := desired == 0
	if !healthy && len(d.Status) > 0 {
		var status struct {
			Conditions []condition `json:"conditions"`
		}
		if err := json.Unmarshal(d.Status, &status); err != nil {
			return err
		}
		for _, condition := range status.Conditions {
			current := condition.ObservedGeneration == nil || d.Metadata.Generation != nil &&
				*condition.ObservedGeneration == *d.Metadata.Generation
			healthy = healthy || condition.Type == available && condition.Status == "True" && current
		}
	}
	response.Healthy = &healthy
	return nil
}
