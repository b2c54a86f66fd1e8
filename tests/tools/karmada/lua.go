package main

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook/request"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:embed customization.lua
var scripts string

// script returns the script of one operation. It is the text between the mark of the operation and the next mark.
func script(name string) string {
	_, rest, _ := strings.Cut(scripts, "-- "+name+"\n")
	text, _, _ := strings.Cut(rest, "\n-- ")
	return text
}

func hasScript(operation configv1alpha1.InterpreterOperation) bool {
	switch operation {
	case configv1alpha1.InterpreterOperationRetain, configv1alpha1.InterpreterOperationAggregateStatus,
		configv1alpha1.InterpreterOperationInterpretStatus, configv1alpha1.InterpreterOperationInterpretDependency:
		return true
	default:
		return false
	}
}

// luaEngine is Karmada's engine, loaded with the customization.
func luaEngine() (interpret, error) {
	engine := declarative.NewConfigurableInterpreter(nil)
	engine.LoadConfig([]*configv1alpha1.ResourceInterpreterCustomization{{
		ObjectMeta: metav1.ObjectMeta{Name: "workloaddeployment"},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target: configv1alpha1.CustomizationTarget{
				APIVersion: "compute.datumapis.com/v1alpha", Kind: "WorkloadDeployment",
			},
			Customizations: configv1alpha1.CustomizationRules{
				Retention:         &configv1alpha1.LocalValueRetention{LuaScript: script("retention")},
				StatusReflection:  &configv1alpha1.StatusReflection{LuaScript: script("statusReflection")},
				StatusAggregation: &configv1alpha1.StatusAggregation{LuaScript: script("statusAggregation")},
				DependencyInterpretation: &configv1alpha1.DependencyInterpretation{
					LuaScript: script("dependencyInterpretation"),
				},
			},
		},
	}})
	return func(_ context.Context, attributes *request.Attributes) error {
		var enabled bool
		var err error
		switch attributes.Operation {
		case configv1alpha1.InterpreterOperationRetain:
			_, enabled, err = engine.Retain(attributes.Object, attributes.ObservedObj)
		case configv1alpha1.InterpreterOperationAggregateStatus:
			_, enabled, err = engine.AggregateStatus(attributes.Object, attributes.AggregatedStatus)
		case configv1alpha1.InterpreterOperationInterpretStatus:
			_, enabled, err = engine.ReflectStatus(attributes.Object)
		case configv1alpha1.InterpreterOperationInterpretDependency:
			_, enabled, err = engine.GetDependencies(attributes.Object)
		}
		if err == nil && !enabled {
			err = fmt.Errorf("%s: the customization has no script for this operation", attributes.Operation)
		}
		return err
	}, nil
}
