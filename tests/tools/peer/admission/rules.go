package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxReplicas = 1000

var supportedMetrics = sets.New("cpu")

func validateWorkload(workload *Workload, verdicts verdicts) field.ErrorList {
	spec := field.NewPath("spec")
	instance := spec.Child("template", "spec")
	values := &workload.Spec.Template.Spec
	errs := validateVolumes(instance.Child("volumes"), values)
	errs = append(errs, validateRuntime(instance.Child("runtime"), values)...)
	errs = append(errs, validateNetworkInterfaces(instance.Child("networkInterfaces"), values.NetworkInterfaces, verdicts.networks)...)
	return append(errs, validatePlacements(spec.Child("placements"), workload.Spec.Placements, verdicts.cities)...)
}

func validateNetworkInterfaces(path *field.Path, interfaces []InstanceNetworkInterface, reviews map[string]review) field.ErrorList {
	if len(interfaces) == 0 {
		return field.ErrorList{field.Required(path, "at least one")}
	}
	var errs field.ErrorList
	for index := range interfaces {
		name := interfaces[index].Network.Name
		path := path.Index(index).Child("network")
		errs = append(errs, validateLabel(path.Child("name"), name)...)
		review, reviewed := reviews[name]
		switch {
		case !reviewed || review.allowed:
		case review.err != nil:
			err := fmt.Errorf("it is not known whether the network may be used: %w; try again", review.err)
			errs = append(errs, field.InternalError(path, err))
		default:
			denied := "permission to use the network was denied"
			if review.reason != "" {
				denied += ": " + review.reason
			}
			errs = append(errs, field.Forbidden(path, denied))
		}
	}
	return errs
}

func validatePlacements(path *field.Path, placements []WorkloadPlacement, cities sets.Set[string]) field.ErrorList {
	if len(placements) == 0 {
		return field.ErrorList{field.Required(path, "at least one")}
	}
	var errs field.ErrorList
	names := sets.New[string]()
	for index := range placements {
		placement, path := &placements[index], path.Index(index)
		errs = append(errs, validateUniqueLabel(path.Child("name"), placement.Name, names)...)
		errs = append(errs, validateCityCodes(path.Child("cityCodes"), placement.CityCodes, cities)...)
		errs = append(errs, validateScaleSettings(path.Child("scaleSettings"), &placement.ScaleSettings)...)
	}
	return errs
}

func validateCityCodes(path *field.Path, codes []string, cities sets.Set[string]) field.ErrorList {
	if len(codes) == 0 {
		return field.ErrorList{field.Required(path, "at least one")}
	}
	var errs field.ErrorList
	for index, code := range codes {
		if !cities.Has(code) {
			errs = append(errs, field.NotSupported(path.Index(index), code, sets.List(cities)))
		}
	}
	return errs
}

func validateScaleSettings(path *field.Path, settings *HorizontalScaleSettings) field.ErrorList {
	var errs field.ErrorList
	least := settings.MinReplicas
	if least <= 0 {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), least, "must be greater than 0"))
	}
	if least > maxReplicas {
		rule := fmt.Sprintf("must be less than or equal to %d", maxReplicas)
		errs = append(errs, field.Invalid(path.Child("minReplicas"), least, rule))
	}
	if settings.MaxReplicas == nil {
		return errs
	}
	if *settings.MaxReplicas < least {
		rule := fmt.Sprintf("must be greater than or equal to minReplicas, which is %d", least)
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), *settings.MaxReplicas, rule))
	}
	path = path.Child("metrics")
	if len(settings.Metrics) == 0 {
		errs = append(errs, field.Required(path, "at least one metric is required when maxReplicas is set"))
	}
	for index := range settings.Metrics {
		errs = append(errs, validateMetric(path.Index(index).Child("resource"), settings.Metrics[index].Resource)...)
	}
	return errs
}

func validateMetric(path *field.Path, resource *ResourceMetricSource) field.ErrorList {
	if resource == nil {
		return field.ErrorList{field.Required(path, "resource is the only supported source of a metric")}
	}
	var errs field.ErrorList
	if !supportedMetrics.Has(string(resource.Name)) {
		errs = append(errs, field.NotSupported(path.Child("name"), string(resource.Name), sets.List(supportedMetrics)))
	}
	return append(errs, validateTarget(path.Child("target"), &resource.Target)...)
}

// validateTarget allows one target. It rejects further targets without checking them.
func validateTarget(path *field.Path, target *MetricTarget) field.ErrorList {
	const oneTarget = "may not specify more than one target"
	var errs field.ErrorList
	targets := 0
	if value := target.Value; value != nil {
		targets++
		if value.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child("value"), value.String(), "must be positive"))
		}
	}
	if value := target.AverageValue; value != nil {
		targets++
		if targets > 1 {
			errs = append(errs, field.Forbidden(path.Child("averageValue"), oneTarget))
		} else if value.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child("averageValue"), value.String(), "must be positive"))
		}
	}
	if percent := target.AverageUtilization; percent != nil {
		targets++
		if targets > 1 {
			errs = append(errs, field.Forbidden(path.Child("averageUtilization"), oneTarget))
		} else if *percent < 1 {
			rule := "must be greater than or equal to 1"
			errs = append(errs, field.Invalid(path.Child("averageUtilization"), *percent, rule))
		}
	}
	if targets == 0 {
		errs = append(errs, field.Required(path, "one of value, averageValue, averageUtilization"))
	}
	return errs
}

// validateUniqueLabel rejects a name that is missing, is not a DNS label, or equals the name of an earlier element.
func validateUniqueLabel(path *field.Path, name string, seen sets.Set[string]) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := validateLabel(path, name)
	return append(errs, validateUnique(path, name, seen)...)
}

func validateLabel(path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, rule := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, rule))
	}
	return errs
}

func validateUnique(path *field.Path, value string, seen sets.Set[string]) field.ErrorList {
	if seen.Has(value) {
		return field.ErrorList{field.Duplicate(path, value)}
	}
	seen.Insert(value)
	return nil
}
