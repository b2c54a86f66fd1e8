package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Workload is a customer's workload.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadSpec `json:"spec"`
}

// DeepCopyObject implements runtime.Object. No cache holds Workloads, so a shallow copy is enough.
func (w *Workload) DeepCopyObject() runtime.Object {
	out := *w
	out.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &out
}

type WorkloadSpec struct {
	Template   InstanceTemplateSpec `json:"template"`
	Placements []WorkloadPlacement  `json:"placements"`
}

type WorkloadPlacement struct {
	Name          string                  `json:"name"`
	CityCodes     []string                `json:"cityCodes"`
	ScaleSettings HorizontalScaleSettings `json:"scaleSettings"`
}

type HorizontalScaleSettings struct {
	MinReplicas              int32        `json:"minReplicas"`
	MaxReplicas              *int32       `json:"maxReplicas,omitempty"`
	Metrics                  []MetricSpec `json:"metrics,omitempty"`
	InstanceManagementPolicy string       `json:"instanceManagementPolicy,omitempty"`
}

type MetricSpec struct {
	Resource *ResourceMetricSource `json:"resource,omitempty"`
}

type ResourceMetricSource struct {
	Name   corev1.ResourceName `json:"name"`
	Target MetricTarget        `json:"target"`
}

type MetricTarget struct {
	Value              *resource.Quantity `json:"value,omitempty"`
	AverageValue       *resource.Quantity `json:"averageValue,omitempty"`
	AverageUtilization *int32             `json:"averageUtilization,omitempty"`
}

type InstanceTemplateSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              InstanceSpec `json:"spec"`
}

type InstanceSpec struct {
	Runtime           InstanceRuntimeSpec        `json:"runtime"`
	NetworkInterfaces []InstanceNetworkInterface `json:"networkInterfaces"`
	Volumes           []InstanceVolume           `json:"volumes,omitempty"`
}

type InstanceRuntimeSpec struct {
	Resources      InstanceRuntimeResources `json:"resources"`
	Sandbox        *SandboxRuntime          `json:"sandbox,omitempty"`
	VirtualMachine *VirtualMachineRuntime   `json:"virtualMachine,omitempty"`
}

type InstanceRuntimeResources struct {
	InstanceType string              `json:"instanceType"`
	Requests     corev1.ResourceList `json:"requests,omitempty"`
}

type SandboxRuntime struct {
	Containers       []SandboxContainer            `json:"containers"`
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

type SandboxContainer struct {
	Name              string                       `json:"name"`
	Image             string                       `json:"image"`
	Env               []corev1.EnvVar              `json:"env,omitempty"`
	Resources         *corev1.ResourceRequirements `json:"resources,omitempty"`
	VolumeAttachments []VolumeAttachment           `json:"volumeAttachments,omitempty"`
	Ports             []NamedPort                  `json:"ports,omitempty"`
}

type VirtualMachineRuntime struct {
	VolumeAttachments []VolumeAttachment `json:"volumeAttachments"`
	Ports             []NamedPort        `json:"ports,omitempty"`
}

type VolumeAttachment struct {
	Name      string  `json:"name"`
	MountPath *string `json:"mountPath,omitempty"`
}

type NamedPort struct {
	Name     string           `json:"name"`
	Port     int32            `json:"port"`
	Protocol *corev1.Protocol `json:"protocol,omitempty"`
}

type InstanceNetworkInterface struct {
	Network       NetworkRef     `json:"network"`
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`
}

type NetworkRef struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

type NetworkPolicy struct {
	Ingress []IngressRule `json:"ingress,omitempty"`
}

type IngressRule struct {
	Ports []NetworkPolicyPort `json:"ports,omitempty"`
	From  []NetworkPolicyPeer `json:"from,omitempty"`
}

type NetworkPolicyPort struct {
	Protocol *corev1.Protocol    `json:"protocol,omitempty"`
	Port     *intstr.IntOrString `json:"port,omitempty"`
	EndPort  *int32              `json:"endPort,omitempty"`
}

type NetworkPolicyPeer struct {
	IPBlock *IPBlock `json:"ipBlock,omitempty"`
}

type IPBlock struct {
	CIDR   string   `json:"cidr"`
	Except []string `json:"except,omitempty"`
}

type InstanceVolume struct {
	Name      string                        `json:"name"`
	Disk      *DiskTemplateVolumeSource     `json:"disk,omitempty"`
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	Secret    *corev1.SecretVolumeSource    `json:"secret,omitempty"`
}

type DiskTemplateVolumeSource struct {
	DeviceName *string       `json:"deviceName,omitempty"`
	Template   *DiskTemplate `json:"template"`
}

type DiskTemplate struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              DiskSpec `json:"spec"`
}

type DiskSpec struct {
	Type      string         `json:"type,omitempty"`
	Resources *DiskResources `json:"resources,omitempty"`
	Populator *DiskPopulator `json:"populator,omitempty"`
}

type DiskResources struct {
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

type DiskPopulator struct {
	Image      *ImagePopulator      `json:"image,omitempty"`
	Filesystem *FilesystemPopulator `json:"filesystem,omitempty"`
}

type ImagePopulator struct {
	Name string `json:"name"`
}

type FilesystemPopulator struct {
	Type string `json:"type"`
}
