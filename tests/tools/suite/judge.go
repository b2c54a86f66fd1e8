package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook/request"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// excluded is the expected value of a field that may have any value.
const excluded = "{{EXCLUDE}}"

// results are the results of one operation, by the names that the suite uses.
type results map[string]any

// judge compares our results with those that the suite expects, and with those of Karmada's engine.
func (t *test) judge(ours results, err error) verdict {
	judged := verdict{Name: t.title()}
	if err != nil {
		judged.Expected, judged.Engine = err.Error(), err.Error()
		return judged
	}
	for name, expected := range t.Output {
		if problem := differs(name, expected, ours[name]); problem != "" {
			judged.Expected = problem
		}
	}
	engine, err := t.engine(t.load())
	if err != nil {
		judged.Engine = "the engine fails: " + err.Error()
		return judged
	}
	for name, result := range engine {
		// The time of a call differs between two calls.
		result = withExclusions(plain(result), plain(t.Output[name]))
		if problem := differs(name, result, ours[name]); problem != "" {
			judged.Engine = problem
		}
	}
	return judged
}

// decoded returns the results that Karmada's client for webhooks takes from an answer.
func (t *test) decoded(answer *configv1alpha1.ResourceInterpreterContext) (results, error) {
	response, err := request.VerifyResourceInterpreterContext(uid, t.Operation, answer)
	if err != nil {
		return nil, err
	}
	if !response.Successful {
		return nil, fmt.Errorf("refused: %s", response.Status.Message)
	}
	switch t.Operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		return results{"replica": response.Replicas, "requires": response.ReplicaRequirements}, nil
	case configv1alpha1.InterpreterOperationInterpretComponent:
		return results{"components": response.Components}, nil
	case configv1alpha1.InterpreterOperationInterpretStatus:
		return results{"status": response.RawStatus}, nil
	case configv1alpha1.InterpreterOperationInterpretHealth:
		return results{"healthy": response.Healthy}, nil
	case configv1alpha1.InterpreterOperationInterpretDependency:
		return results{"dependencies": response.Dependencies}, nil
	}
	object, err := t.object().MarshalJSON()
	if err != nil {
		return nil, err
	}
	if len(response.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(response.Patch)
		if err != nil {
			return nil, err
		}
		if object, err = patch.Apply(object); err != nil {
			return nil, fmt.Errorf("the patch %s: %w", response.Patch, err)
		}
	}
	return results{t.nameOfObject(): json.RawMessage(object)}, nil
}

// nameOfObject is the suite's name for the changed object.
func (t *test) nameOfObject() string {
	switch t.Operation {
	case configv1alpha1.InterpreterOperationReviseReplica:
		return "revised"
	case configv1alpha1.InterpreterOperationRetain:
		return "retained"
	default:
		return "aggregatedStatus"
	}
}

// load returns Karmada's own engine, with the scripts of the case.
func (t *test) load() *declarative.ConfigurableInterpreter {
	engine := declarative.NewConfigurableInterpreter(nil)
	engine.LoadConfig([]*configv1alpha1.ResourceInterpreterCustomization{t.customization})
	return engine
}

// engine returns the results of an engine that has the scripts of the case.
func (t *test) engine(engine *declarative.ConfigurableInterpreter) (results, error) {
	return t.answered(engine, t.attributes())
}

// answered returns the results of an engine for these attributes of the case.
func (t *test) answered(engine *declarative.ConfigurableInterpreter, attributes *request.Attributes) (found results, err error) {
	var enabled bool
	// A panic ends Karmada's call, too.
	defer func() {
		if reason := recover(); reason != nil {
			found, err = nil, fmt.Errorf("panic: %v", reason)
		}
	}()
	switch t.Operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		var replicas int32
		var requirements *workv1alpha2.ReplicaRequirements
		replicas, requirements, enabled, err = engine.GetReplicas(attributes.Object)
		found = results{"replica": replicas, "requires": requirements}
	case configv1alpha1.InterpreterOperationInterpretComponent:
		var components []workv1alpha2.Component
		components, enabled, err = engine.GetComponents(attributes.Object)
		found = results{"components": components}
	case configv1alpha1.InterpreterOperationInterpretStatus:
		status, enabledToo, failed := engine.ReflectStatus(attributes.Object)
		found, enabled, err = results{"status": status}, enabledToo, failed
	case configv1alpha1.InterpreterOperationInterpretHealth:
		var healthy bool
		healthy, enabled, err = engine.InterpretHealth(attributes.Object)
		found = results{"healthy": healthy}
	case configv1alpha1.InterpreterOperationInterpretDependency:
		var dependencies []configv1alpha1.DependentObjectReference
		dependencies, enabled, err = engine.GetDependencies(attributes.Object)
		found = results{"dependencies": dependencies}
	case configv1alpha1.InterpreterOperationReviseReplica:
		object, enabledToo, failed := engine.ReviseReplica(attributes.Object, int64(attributes.ReplicasSet))
		found, enabled, err = results{t.nameOfObject(): object}, enabledToo, failed
	case configv1alpha1.InterpreterOperationRetain:
		object, enabledToo, failed := engine.Retain(attributes.Object, attributes.ObservedObj)
		found, enabled, err = results{t.nameOfObject(): object}, enabledToo, failed
	default:
		object, enabledToo, failed := engine.AggregateStatus(attributes.Object, attributes.AggregatedStatus)
		found, enabled, err = results{t.nameOfObject(): object}, enabledToo, failed
	}
	if err == nil && !enabled {
		err = fmt.Errorf("the customization has no script for this operation")
	}
	return found, err
}

// differs returns how a result differs from the expected one. Quantities are compared by value.
func differs(name string, expected, ours any) string {
	switch name {
	case "requires":
		return differsAs(expected, ours, func(*workv1alpha2.ReplicaRequirements) {})
	case "components":
		return differsAs(expected, ours, func(components *[]workv1alpha2.Component) {
			slices.SortFunc(*components, func(a, b workv1alpha2.Component) int { return cmp.Compare(a.Name, b.Name) })
		})
	case "dependencies":
		return differsAs(expected, ours, func(references *[]configv1alpha1.DependentObjectReference) {
			slices.SortFunc(*references, func(a, b configv1alpha1.DependentObjectReference) int {
				return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
					cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
		})
	}
	wanted := plain(expected)
	found := withExclusions(plain(ours), wanted)
	if equality.Semantic.DeepEqual(wanted, found) {
		return ""
	}
	return difference(wanted, found)
}

func differsAs[T any](expected, ours any, sort func(*T)) string {
	var wanted, found T
	for _, pair := range []struct {
		from any
		to   *T
	}{{expected, &wanted}, {ours, &found}} {
		text, err := json.Marshal(pair.from)
		if err == nil {
			err = json.Unmarshal(text, pair.to)
		}
		if err != nil {
			return err.Error()
		}
		sort(pair.to)
	}
	if equality.Semantic.DeepEqual(wanted, found) {
		return ""
	}
	return difference(wanted, found)
}

func difference(expected, found any) string {
	wanted, _ := json.Marshal(expected)
	ours, _ := json.Marshal(found)
	return fmt.Sprintf("expected %s, found %s", wanted, ours)
}

// plain returns a value as JSON decodes it.
func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var decoded any
	if err := utiljson.Unmarshal(text, &decoded); err != nil {
		return err.Error()
	}
	return decoded
}

// withExclusions returns the value, with the mark of exclusion where the pattern has it.
func withExclusions(value, pattern any) any {
	if pattern == excluded {
		return excluded
	}
	switch pattern := pattern.(type) {
	case map[string]any:
		fields, ok := value.(map[string]any)
		if !ok {
			return value
		}
		marked := map[string]any{}
		for name, field := range fields {
			marked[name] = withExclusions(field, pattern[name])
		}
		for name, field := range pattern {
			if field == excluded {
				marked[name] = excluded
			}
		}
		return marked
	case []any:
		elements, ok := value.([]any)
		if !ok {
			return value
		}
		marked := slices.Clone(elements)
		for index := range min(len(marked), len(pattern)) {
			marked[index] = withExclusions(marked[index], pattern[index])
		}
		return marked
	default:
		return value
	}
}
