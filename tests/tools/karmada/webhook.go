package main

import (
	"context"
	"fmt"
	"os"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook/request"
	"github.com/karmada-io/karmada/pkg/util/fedinformer/genericmanager"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// webhookClient returns Karmada's client. Its configuration contains the webhook at the URL.
func webhookClient(url, ca string) (interpret, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	// The informers are never started, because the configuration is passed directly.
	nowhere, err := dynamic.NewForConfig(&rest.Config{Host: "127.0.0.1"})
	if err != nil {
		return nil, err
	}
	informers := genericmanager.NewSingleClusterInformerManager(context.Background(), nowhere, 0)
	client, err := webhook.NewCustomizedInterpreter(informers, nil)
	if err != nil {
		return nil, err
	}
	client.LoadConfig([]*configv1alpha1.ResourceInterpreterWebhookConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Name: "compute-federation"},
		Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
			Name:         "interpreter.compute.datumapis.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: pem},
			Rules: []configv1alpha1.RuleWithOperations{{
				Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationAll},
				Rule: configv1alpha1.Rule{
					APIGroups: []string{"*"}, APIVersions: []string{"*"}, Kinds: []string{"*"},
				},
			}},
			TimeoutSeconds:             ptr.To[int32](10),
			InterpreterContextVersions: []string{"v1alpha1"},
		}},
	}})
	return func(ctx context.Context, attributes *request.Attributes) error {
		var matched bool
		var err error
		switch attributes.Operation {
		case configv1alpha1.InterpreterOperationInterpretReplica:
			_, _, matched, err = client.GetReplicas(ctx, attributes)
		case configv1alpha1.InterpreterOperationInterpretComponent:
			_, matched, err = client.GetComponents(ctx, attributes)
		case configv1alpha1.InterpreterOperationInterpretStatus:
			_, matched, err = client.ReflectStatus(ctx, attributes)
		case configv1alpha1.InterpreterOperationInterpretHealth:
			_, matched, err = client.InterpretHealth(ctx, attributes)
		case configv1alpha1.InterpreterOperationInterpretDependency:
			_, matched, err = client.GetDependencies(ctx, attributes)
		default:
			_, matched, err = client.Patch(ctx, attributes)
		}
		if err == nil && !matched {
			err = fmt.Errorf("%s: no webhook matches the request", attributes.Operation)
		}
		return err
	}, nil
}
