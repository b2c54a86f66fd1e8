package main

import (
	"context"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// atATime is the maximum number of concurrent access reviews per request.
const atATime = 32

// workloadValidator finds all errors in a Workload.
type workloadValidator struct {
	locations client.Reader
	reviews   authorizationclient.SubjectAccessReviewInterface
}

var _ admission.Validator[*Workload] = &workloadValidator{}

// verdicts are the results of external checks of a Workload.
type verdicts struct {
	cities   sets.Set[string]
	networks map[string]review
}

// review is the result of one access review: whether the user may use a network.
type review struct {
	allowed bool
	reason  string
	err     error
}

// ValidateCreate implements admission.Validator.
func (v *workloadValidator) ValidateCreate(ctx context.Context, workload *Workload) (admission.Warnings, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, err
	}
	cities, err := cityCodes(ctx, v.locations)
	if err != nil {
		return nil, err
	}
	networks := v.reviewNetworks(ctx, &request, workload)
	errs := validateWorkload(workload, verdicts{cities: cities, networks: networks})
	if len(errs) == 0 {
		return nil, nil
	}
	kind := schema.GroupKind{Group: computeVersion.Group, Kind: "Workload"}
	return nil, apierrors.NewInvalid(kind, workload.Name, errs)
}

// ValidateUpdate implements admission.Validator. The benchmark does not measure it.
func (v *workloadValidator) ValidateUpdate(context.Context, *Workload, *Workload) (admission.Warnings, error) {
	return nil, nil
}

// ValidateDelete implements admission.Validator.
func (v *workloadValidator) ValidateDelete(context.Context, *Workload) (admission.Warnings, error) {
	return nil, nil
}

// reviewNetworks sends one review per network, concurrently.
func (v *workloadValidator) reviewNetworks(ctx context.Context, request *admission.Request, workload *Workload) map[string]review {
	extra := make(map[string]authorizationv1.ExtraValue, len(request.UserInfo.Extra))
	for claim, values := range request.UserInfo.Extra {
		extra[claim] = authorizationv1.ExtraValue(values)
	}
	seen := sets.New[string]()
	var names []string
	for _, networkInterface := range workload.Spec.Template.Spec.NetworkInterfaces {
		name := networkInterface.Network.Name
		if len(validation.IsDNS1123Label(name)) == 0 && !seen.Has(name) {
			seen.Insert(name)
			names = append(names, name)
		}
	}
	answers := make([]review, len(names))
	var group errgroup.Group
	group.SetLimit(atATime)
	for index, name := range names {
		group.Go(func() error {
			answer, err := v.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: request.Namespace,
						Verb:      "use",
						Group:     networkingVersion.Group,
						Version:   networkingVersion.Version,
						Resource:  "networks",
						Name:      name,
					},
					User:   request.UserInfo.Username,
					Groups: request.UserInfo.Groups,
					UID:    request.UserInfo.UID,
					Extra:  extra,
				},
			}, metav1.CreateOptions{})
			if err != nil {
				answers[index].err = err
				return nil
			}
			answers[index] = review{allowed: answer.Status.Allowed, reason: answer.Status.Reason}
			return nil
		})
	}
	_ = group.Wait()
	networks := make(map[string]review, len(names))
	for index, name := range names {
		networks[name] = answers[index]
	}
	return networks
}
