package main

import (
	"context"
	"fmt"
	"os"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/webhook"
	"github.com/karmada-io/karmada/pkg/util/fedinformer/genericmanager"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// webhookClient returns Karmada's client for webhooks. It calls the webhook at the URL for every kind.
func webhookClient(url, ca string) (*webhook.CustomizedInterpreter, error) {
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
	every := []string{"*"}
	client.LoadConfig([]*configv1alpha1.ResourceInterpreterWebhookConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Name: "suite"},
		Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
			Name:         "suite.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: pem},
			Rules: []configv1alpha1.RuleWithOperations{{
				Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationAll},
				Rule:       configv1alpha1.Rule{APIGroups: every, APIVersions: every, Kinds: every},
			}},
			TimeoutSeconds:             ptr.To[int32](10),
			InterpreterContextVersions: []string{"v1alpha1"},
		}},
	}})
	return client, nil
}

// called returns the results that Karmada takes from the webhook.
func (t *test) called(client *webhook.CustomizedInterpreter) (found results, err error) {
	ctx, attributes := context.Background(), t.attributes()
	var matched bool
	switch t.Operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		replicas, requirements, enabled, failed := client.GetReplicas(ctx, attributes)
		found, matched, err = results{"replica": replicas, "requires": requirements}, enabled, failed
	case configv1alpha1.InterpreterOperationInterpretComponent:
		components, enabled, failed := client.GetComponents(ctx, attributes)
		found, matched, err = results{"components": components}, enabled, failed
	case configv1alpha1.InterpreterOperationInterpretStatus:
		status, enabled, failed := client.ReflectStatus(ctx, attributes)
		found, matched, err = results{"status": status}, enabled, failed
	case configv1alpha1.InterpreterOperationInterpretHealth:
		healthy, enabled, failed := client.InterpretHealth(ctx, attributes)
		found, matched, err = results{"healthy": healthy}, enabled, failed
	case configv1alpha1.InterpreterOperationInterpretDependency:
		dependencies, enabled, failed := client.GetDependencies(ctx, attributes)
		found, matched, err = results{"dependencies": dependencies}, enabled, failed
	default:
		object, enabled, failed := client.Patch(ctx, attributes)
		found, matched, err = results{t.nameOfObject(): object}, enabled, failed
	}
	if err == nil && !matched {
		err = fmt.Errorf("%s: no webhook matches the request", t.Operation)
	}
	return found, err
}
