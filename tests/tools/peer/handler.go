package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/webhook/interpreter"
)

const (
	group   = "compute.datumapis.com"
	version = "v1alpha"
)

// handler interprets WorkloadDeployments and Instances.
type handler struct {
	decoder *interpreter.Decoder
}

var _ interpreter.Handler = &handler{}
var _ interpreter.DecoderInjector = &handler{}

// InjectDecoder implements interpreter.DecoderInjector.
func (h *handler) InjectDecoder(decoder *interpreter.Decoder) {
	h.decoder = decoder
}

// Handle implements interpreter.Handler.
func (h *handler) Handle(_ context.Context, req interpreter.Request) interpreter.Response {
	if req.Kind.Group != group || req.Kind.Version != version {
		return refuse(fmt.Errorf("request.kind: %s is not interpreted here", req.Kind))
	}
	var response interpreter.Response
	var err error
	switch req.Kind.Kind {
	case "WorkloadDeployment":
		response, err = interpretDeployment(req)
	case "Instance":
		response, err = interpretInstance(req)
	default:
		err = fmt.Errorf("request.kind: %s is not interpreted here", req.Kind)
	}
	if err != nil {
		return refuse(err)
	}
	return response
}

func refuse(err error) interpreter.Response {
	return interpreter.Errored(http.StatusUnprocessableEntity, err)
}

func unknownOperation(operation configv1alpha1.InterpreterOperation) error {
	return fmt.Errorf("request.operation: unknown operation %q", operation)
}

// decode reads only the fields of the type. This is faster than reading the whole object with its managedFields.
func decode(field string, raw []byte, into any) error {
	if len(raw) == 0 {
		return fmt.Errorf("%s: is missing", field)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func add(path string, value any) operation {
	return operation{Op: "add", Path: path, Value: value}
}

// patched encodes a patch of known operations. PatchResponseFromRaw of the SDK would compare two whole objects instead.
func patched(operations ...operation) (interpreter.Response, error) {
	response := interpreter.Succeeded("")
	if len(operations) == 0 {
		return response, nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return response, err
	}
	patchType := configv1alpha1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &patchType
	return response, nil
}
